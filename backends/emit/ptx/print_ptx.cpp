#include "backends/emit/ptx/print_ptx.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/emit/expand_math.h"
#include "backends/emit/ptx/printer.h"

namespace framefuse::emit {
namespace ptx {

void Printer::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::UnimplementedError("no PTX for " + what);
}

absl::StatusOr<std::string> Printer::Run() {
  Start();
  switch (k_.skeleton) {
    case Skeleton::kPointwise:
    case Skeleton::kHorizontal:
      Points();
      break;
    case Skeleton::kRow:
      Rows();
      break;
    case Skeleton::kColumn:
      Columns();
      break;
    case Skeleton::kTransposed:
      Transposed();
      break;
  }
  if (!status_.ok()) return status_;
  t_.Do("ret", {});
  const int words = SizeWord(at_.count());
  std::string out = absl::StrCat(".visible .entry ", name_, "(\n  .param .align 8 .b8 ", name_, "_args[", words * 8,
                                 "]\n)\n.maxntid ", f_.threads, ", 1, 1\n");
  if (f_.resident > 0) absl::StrAppend(&out, ".minnctapersm ", f_.resident, "\n");
  return absl::StrCat(out, "{\n", t_.Finish(), "}\n");
}

// The functions that are left to the printer: instructions, and those that must be as CUDA's are, because another
// kernel's text may round the same half.
class Leaves : private KernelFacts {
 public:
  Leaves(const kernel_ir::Kernel& kernel, const CudaForm& form) : KernelFacts(kernel, form) {}
  bool operator()(kernel_ir::ValueId id) const {
    const Inst& in = inst(id);
    if (!ShortFunction(id).empty() || in.op == Op::kReciprocal) return true;
    if (in.type == kernel_ir::Type::kF32 && Printer::HasExact(in.op)) return true;
    return kernel_ir::ClassOf(in.op) == OpClass::kMath && in.imm != 0;
  }
};

}  // namespace ptx

absl::StatusOr<std::string> PrintPtx(const kernel_ir::Kernel& kernel, const CudaForm& form, const std::string& name) {
  if (absl::Status status = Verify(kernel); !status.ok()) return status;
  const kernel_ir::Kernel expanded = ExpandMath(kernel, false, ptx::Leaves(kernel, form));
  return ptx::Printer(expanded, form, name).Run();
}

namespace {

std::string TextOf(const char* name, std::string_view text) {
  std::string bytes;
  for (char c : text) absl::StrAppend(&bytes, static_cast<int>(c), ", ");
  return absl::StrCat(".global .align 1 .b8 ", name, "[", text.size() + 1, "] = {", bytes, "0};\n");
}

// What a failing assertion says, as in the prelude of CUDA C++.
std::string Assertions() {
  return absl::StrCat(
      ".extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, "
      ".param .b64 size) .noreturn;\n",
      TextOf("$index_message", "an index is out of range"), TextOf("$index_file", "framefuse.cu"),
      TextOf("$index_function", "in_row"), "\n");
}

std::string Angles() {
  return absl::StrCat(
      ".global .align 4 .b32 ", ptx::kTwoOverPi,
      "[8] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};\n");
}

}  // namespace

std::string PtxModule(std::string_view kernels, int architecture) {
  constexpr int kKnown = 90;  // of this version of PTX; later processors run what is made for it
  const bool turns = kernels.find(ptx::kTwoOverPi) != kernels.npos;
  const bool asserts = kernels.find("__assertfail") != kernels.npos;
  return absl::StrCat(".version 7.8\n.target sm_", std::min(architecture, kKnown), "\n.address_size 64\n\n",
                      asserts ? Assertions() : "", turns ? Angles() : "", std::string(kernels));
}

}  // namespace framefuse::emit
