// Runs a package that framefuse.export wrote, on raw tensors from files:
//   run_package PACKAGE ROUNDS RESULT_PREFIX FILE:DTYPE:SIZES …      (x.bin:f32:4x8; a number without sizes:
//   y.bin:f32:)
// Results are written to RESULT_PREFIX0, RESULT_PREFIX1 …, row by row, and their dtypes and sizes printed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "framefuse_run.h"

namespace {

struct Kind {
  framefuse_dtype dtype;
  std::int64_t bytes;
};
const std::map<std::string, Kind> kKinds = {
    {"f32", {FRAMEFUSE_F32, 4}}, {"f64", {FRAMEFUSE_F64, 8}},   {"bf16", {FRAMEFUSE_BF16, 2}},
    {"f16", {FRAMEFUSE_F16, 2}}, {"i64", {FRAMEFUSE_I64, 8}},   {"i32", {FRAMEFUSE_I32, 4}},
    {"u8", {FRAMEFUSE_U8, 1}},   {"bool", {FRAMEFUSE_BOOL, 1}},
};

struct Argument {
  std::string bytes;
  std::vector<std::int64_t> sizes;
  framefuse_tensor tensor{};
};

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

void Read(const std::string& text, Argument* argument) {
  std::istringstream parts(text);
  std::string file, dtype, sizes, size;
  std::getline(parts, file, ':');
  std::getline(parts, dtype, ':');
  std::getline(parts, sizes);
  std::istringstream numbers(sizes);
  while (std::getline(numbers, size, 'x')) argument->sizes.push_back(std::atoll(size.c_str()));
  const auto kind = kKinds.find(dtype);
  if (kind == kKinds.end()) Fail("unknown dtype " + dtype);
  std::ifstream in(file, std::ios::binary);
  argument->bytes.assign(std::istreambuf_iterator<char>(in), {});
  std::int64_t bytes = kind->second.bytes;
  for (const std::int64_t n : argument->sizes) bytes *= n;
  if (static_cast<std::int64_t>(argument->bytes.size()) != bytes) Fail(file + " has not the bytes of " + text);
  argument->tensor = {argument->bytes.data(),
                      kind->second.dtype,
                      static_cast<std::int32_t>(argument->sizes.size()),
                      argument->sizes.data(),
                      nullptr,
                      -1};
}

// One element after another, whatever the strides are.
void Write(const framefuse_tensor& t, std::int64_t bytes, std::int32_t dim, const char* at, std::ofstream& out) {
  if (dim == t.rank) {
    out.write(at, bytes);
    return;
  }
  for (std::int64_t i = 0; i < t.sizes[dim]; ++i) Write(t, bytes, dim + 1, at + i * t.strides[dim] * bytes, out);
}

void Show(const framefuse_tensor& t, const std::string& file) {
  for (const auto& [name, kind] : kKinds) {
    if (kind.dtype != t.dtype) continue;
    std::printf("%s", name.c_str());
    for (std::int32_t d = 0; d < t.rank; ++d) std::printf(" %lld", static_cast<long long>(t.sizes[d]));
    std::printf("\n");
    std::ofstream out(file, std::ios::binary);
    Write(t, kind.bytes, 0, static_cast<const char*>(t.data), out);
    return;
  }
  Fail("a result is of a dtype that this program does not write");
}

double Milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) Fail("run_package PACKAGE ROUNDS RESULT_PREFIX FILE:DTYPE:SIZES …");
  const auto start = std::chrono::steady_clock::now();
  framefuse_package* package = framefuse_load(words[1], nullptr);
  if (package == nullptr) Fail(framefuse_last_error());
  std::fprintf(stderr, "loaded in %.2f ms\n%s", Milliseconds(start), framefuse_signature(package));

  std::vector<Argument> arguments(static_cast<std::size_t>(count - 4));
  std::vector<framefuse_tensor> tensors;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Read(words[i + 4], &arguments[i]);
    tensors.push_back(arguments[i].tensor);
  }
  framefuse_results* results = nullptr;
  for (int round = 0; round < std::atoi(words[2]); ++round) {
    framefuse_free_results(results);
    const auto before = std::chrono::steady_clock::now();
    results = framefuse_run(package, tensors.data(), static_cast<std::int32_t>(tensors.size()));
    if (results == nullptr) Fail(framefuse_last_error());
    std::fprintf(stderr, "call %d: %.3f ms\n", round, Milliseconds(before));
  }
  for (std::int32_t i = 0; results != nullptr && i < framefuse_result_count(package); ++i) {
    Show(*framefuse_result(results, i), words[3] + std::to_string(i));
  }
  framefuse_free_results(results);
  framefuse_free(package);
  return 0;
}
