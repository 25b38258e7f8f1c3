// Golden texts: golden/*.txt hold a graph, a line of dashes, and what becomes of it: its groups, their kernels, the
// CUDA text and its PTX, and the machine code of the vector widths that the file's first line names
// ("# x86: 256, 512"), listed by binutils with names for places (see tests/common/golden.h).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "backends/emit/cuda/print_cuda.h"
#include "backends/emit/ptx/print_ptx.h"
#include "backends/emit/x86/compile.h"
#include "backends/fusion/decompose.h"
#include "backends/fusion/lower.h"
#include "backends/fusion/operands.h"
#include "backends/fusion/sink_views.h"
#include "backends/graph/op.h"
#include "backends/passes/pass.h"
#include "common/status.h"
#include "tests/common/golden.h"

namespace framefuse {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(FF_FUSION_TEST_FOLDER) / "golden";

bool HasObjdump() { return std::system("command -v objdump > /dev/null 2>&1") == 0; }

// objdump's lines of a file of machine code: address and instruction.
std::vector<std::pair<std::size_t, std::string>> Disassembled(const emit::MachineCode& code) {
  const std::string base = ::testing::TempDir() + "framefuse_golden_" + std::to_string(getpid());
  std::ofstream(base, std::ios::binary)
      .write(static_cast<const char*>(code.memory.data()), static_cast<std::streamsize>(code.bytes));
  const std::string command = absl::StrCat("objdump -D -b binary -m i386:x86-64 -M intel --no-show-raw-insn ", base,
                                           " > ", base, ".txt 2> /dev/null");
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<std::pair<std::size_t, std::string>> out;
  std::ifstream listing(base + ".txt");
  const std::regex form("^ *([0-9a-f]+):\t(.*?) *$");
  for (std::string line; std::getline(listing, line);) {
    std::smatch m;
    if (std::regex_match(line, m, form)) out.emplace_back(std::stoul(m[1], nullptr, 16), m[2]);
  }
  fs::remove(base);
  fs::remove(base + ".txt");
  return out;
}

// Places in the code get names in order, constants their value, so that a change shows where it is and nowhere else.
std::string Listing(const emit::MachineCode& code) {
  auto lines = Disassembled(code);
  const auto end = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.second == "ret"; });
  if (end == lines.end()) return "no ret\n";
  lines.erase(end + 1, lines.end());
  const std::regex jump("^(j[a-z]+) +0x([0-9a-f]+)$"), constant("\\[rip\\+0x[0-9a-f]+\\] +# 0x([0-9a-f]+)");
  std::map<std::size_t, std::string> places;
  std::smatch m;
  for (const auto& [at, text] : lines) {
    if (std::regex_match(text, m, jump)) places[std::stoul(m[2], nullptr, 16)] = "";
  }
  int next = 0;
  for (auto& [at, name] : places) name = "L" + std::to_string(++next);
  std::string out;
  for (auto& [at, text] : lines) {
    if (auto place = places.find(at); place != places.end()) absl::StrAppend(&out, place->second, ":\n");
    if (std::regex_match(text, m, jump)) {
      text = m[1].str() + " " + places[std::stoul(m[2], nullptr, 16)];
    } else if (std::regex_search(text, m, constant)) {
      std::uint32_t word = 0;
      std::memcpy(&word, static_cast<const char*>(code.memory.data()) + std::stoul(m[1], nullptr, 16), sizeof word);
      text = m.prefix().str() + absl::StrCat("[constant ", absl::Hex(word, absl::kZeroPad8), "]") + m.suffix().str();
    }
    absl::StrAppend(&out, "  ", std::regex_replace(text, std::regex(" +"), " "), "\n");
  }
  return out;
}

class Writer {
 public:
  Writer(ir::Graph* graph, std::vector<int> widths) : g_(*graph), widths_(std::move(widths)) {}

  std::string Run() {
    const fusion::Schedule schedule = fusion::MakeSchedule(g_);
    for (const fusion::ScheduleItem& item : schedule.items) {
      if (item.group < 0) {
        for (ir::NodeIndex n : item.nodes) {
          absl::StrAppend(&out_, "== ATen: ", g_.nodes[static_cast<std::size_t>(n)].op->name(), "\n");
        }
        continue;
      }
      Group(schedule.groups[static_cast<std::size_t>(item.group)]);
    }
    return out_;
  }

 private:
  void Group(const fusion::Group& group) {
    absl::StrAppend(&out_, "== ", fusion::Describe(g_, group), "\n");
    for (const bool cuda : {false, true}) {
      auto lowered = fusion::Lower(g_, group, Needed(group), cuda ? fusion::kCudaSplits : fusion::kCpuSplits);
      if (!lowered.ok()) {
        absl::StrAppend(&out_, MessageOf(lowered.status()), "\n");
        return;
      }
      for (const fusion::LoweredKernel& k : lowered->kernels) cuda ? Cuda(k) : X86(k);
    }
  }

  std::vector<bool> Needed(const fusion::Group& group) const {
    std::vector<bool> needed(g_.values.size(), false);
    for (std::size_t n = 0; n < g_.nodes.size(); ++n) {
      if (group.Contains(static_cast<ir::NodeIndex>(n))) continue;
      ir::ForEachUse(g_.nodes[n], [&](ir::ValueId v) { needed[static_cast<std::size_t>(v)] = true; });
    }
    for (const ir::Output& o : g_.outputs) needed[static_cast<std::size_t>(o.value)] = true;
    return needed;
  }

  void X86(const fusion::LoweredKernel& k) {
    absl::StrAppend(&out_, "-- kernel\n", kernel_ir::Print(k.kernel));
    for (int width : widths_) {
      auto code = emit::CompileX86(k.kernel, static_cast<emit::VectorBits>(width));
      absl::StrAppend(&out_, "-- x86, ", width, " bits\n",
                      code.ok() ? Listing(**code) : MessageOf(code.status()) + "\n");
    }
  }

  void Cuda(const fusion::LoweredKernel& k) {
    const auto form = emit::ChooseForm(k.kernel, fusion::HintedShape(k, g_.exprs), fusion::IsFixed(k));
    auto text = emit::PrintCuda(k.kernel, form, "kernel");
    absl::StrAppend(&out_, "-- CUDA\n", text.ok() ? *text : MessageOf(text.status()) + "\n");
    auto ptx = emit::PrintPtx(k.kernel, form, "kernel");
    absl::StrAppend(&out_, "-- PTX\n", ptx.ok() ? *ptx : MessageOf(ptx.status()) + "\n");
  }

  ir::Graph& g_;
  const std::vector<int> widths_;
  std::string out_;
};

std::string Transform(const std::string& input) {
  absl::StatusOr<ir::Graph> g = ir::Parse(input);
  if (!g.ok()) return MessageOf(g.status()) + "\n";
  static constexpr Pass kPasses[] = {{"decompose", fusion::Decompose},
                                     {"sink_views", fusion::SinkViews},
                                     {"merge_common_subexpressions", MergeCommonSubexpressions},
                                     {"eliminate_dead_code", EliminateDeadCode}};
  if (absl::Status status = RunPasses(*g, kPasses, nullptr); !status.ok()) return MessageOf(status) + "\n";
  std::vector<int> widths;
  absl::string_view first = absl::string_view(input).substr(0, input.find('\n'));
  if (absl::ConsumePrefix(&first, "# x86: ")) {
    for (absl::string_view width : absl::StrSplit(first, ", ")) widths.push_back(std::stoi(std::string(width)));
  }
  return Writer(&*g, widths).Run();
}

class GoldenKernels : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenKernels, AreAsRecorded) {
  if (!HasObjdump()) GTEST_SKIP() << "no objdump";
  if (!emit::HostSupportsX86Emitter()) GTEST_SKIP() << "no machine code on this processor";
  testing::ExpectGolden(kFolder, GetParam(), Transform);
}

INSTANTIATE_TEST_SUITE_P(Texts, GoldenKernels, ::testing::ValuesIn(testing::GoldenNames(kFolder)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace framefuse
