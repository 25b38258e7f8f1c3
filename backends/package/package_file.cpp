#include "backends/package/package_file.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/package/safetensors.h"
#include "common/sha256.h"
#include "common/status.h"

namespace framefuse {
namespace {

// Every package begins so, behind the eight bytes of its header's length; then the checksum's digits.
constexpr std::string_view kBegin = R"({"__metadata__":{"framefuse_package":"1","sha256":")";
constexpr std::string_view kAnyVersion = R"({"__metadata__":{"framefuse_package":")";
constexpr std::size_t kLengthBytes = 8, kDigits = 2 * Sha256::kBytes, kAlignment = 64;

absl::Status FileError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

std::string_view BytesOf(const at::Tensor& t) {
  return {static_cast<const char*>(t.const_data_ptr()), static_cast<std::size_t>(t.nbytes())};
}

std::string LengthBytes(std::uint64_t length) {
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes.push_back(static_cast<char>(length >> (8 * i)));
  return bytes;
}

// The bytes of a file in order; the digits of the checksum are left out of it.
class Checksum {
 public:
  explicit Checksum(bool of_file) : of_file_(of_file) {}
  void Add(std::string_view bytes) {
    AddDigits(bytes);
    rest_.Add(bytes);
  }
  void AddDigits(std::string_view digits) {
    if (of_file_) file_.Add(digits);
  }
  std::string OfFile() { return HexOf(file_.Finish()); }
  std::string OfRest() { return HexOf(rest_.Finish()); }

 private:
  bool of_file_;
  Sha256 file_, rest_;
};

class Output {
 public:
  explicit Output(const std::string& path) : path_(path) {
    static std::atomic<int> count{0};
    unfinished_ = absl::StrCat(path, ".", getpid(), ".", ++count, ".new");
    file_.reset(std::fopen(unfinished_.c_str(), "wbxe"));
  }
  ~Output() {
    if (file_ == nullptr) return;
    file_.reset();
    std::remove(unfinished_.c_str());
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool Write(std::string_view bytes) {
    return file_ != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  }
  // It has its name from here on.
  absl::Status Finish() {
    if (file_ == nullptr || std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0 ||
        std::rename(unfinished_.c_str(), path_.c_str()) != 0) {
      return FileError(path_);
    }
    file_.reset();
    return absl::OkStatus();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_, unfinished_;
  std::unique_ptr<std::FILE, Close> file_;
};

class Input {
 public:
  explicit Input(const std::string& path)
      : path_(path), handle_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Input() {
    if (handle_ >= 0) close(handle_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  absl::StatusOr<std::uint64_t> Length() const {
    struct stat facts {};
    if (handle_ < 0 || fstat(handle_, &facts) != 0) return FileError(path_);
    if (!S_ISREG(facts.st_mode)) return absl::UnavailableError(path_ + " is no file");
    return static_cast<std::uint64_t>(facts.st_size);
  }
  absl::Status Read(char* bytes, std::size_t count) const {
    while (count > 0) {
      const ssize_t n = read(handle_, bytes, count);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FileError(path_);
      if (n == 0) return absl::OutOfRangeError("it ends too early");
      bytes += n;
      count -= static_cast<std::size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  std::string path_;
  int handle_;
};

absl::Status Bad(std::string_view what) { return absl::OutOfRangeError(std::string(what)); }

absl::Status CheckBegin(std::string_view header) {
  if (header.substr(0, kBegin.size()) == kBegin && header.size() >= kBegin.size() + kDigits) return absl::OkStatus();
  const bool other = header.substr(0, kAnyVersion.size()) == kAnyVersion;
  return Bad(other ? "it is damaged, or of a version of the format that this framefuse does not know"
                   : "it is damaged, or no package of framefuse's");
}

absl::StatusOr<Package> ReadFrom(const Input& file, std::string_view sha256) {
  FF_ASSIGN_OR_RETURN(const std::uint64_t length, file.Length());
  if (length < kLengthBytes + kBegin.size() + kDigits) return Bad("it is damaged, or no package of framefuse's");
  std::string size(kLengthBytes, '\0');
  FF_RETURN_IF_ERROR(file.Read(size.data(), size.size()));
  std::uint64_t header_bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) header_bytes = header_bytes << 8 | static_cast<unsigned char>(size[i]);
  if (header_bytes > length - kLengthBytes) return Bad("it is damaged: its header is longer than the file");
  std::string json(header_bytes, '\0');
  FF_RETURN_IF_ERROR(file.Read(json.data(), json.size()));
  FF_RETURN_IF_ERROR(CheckBegin(json));
  const std::string_view whole = json;
  const std::string_view digits = whole.substr(kBegin.size(), kDigits);
  Checksum checksum(/*of_file=*/!sha256.empty());
  checksum.Add(size);
  checksum.Add(whole.substr(0, kBegin.size()));
  checksum.AddDigits(digits);
  checksum.Add(whole.substr(kBegin.size() + kDigits));
  absl::StatusOr<SafetensorsHeader> header = ReadHeader(json, length - kLengthBytes - header_bytes);
  if (!header.ok()) return Bad(absl::StrCat("it is damaged: ", MessageOf(header.status())));
  Package package;
  package.texts.insert(header->texts.begin(), header->texts.end());
  for (const StoredTensor& stored : header->tensors) {
    at::Tensor tensor = at::empty(stored.sizes, at::TensorOptions().dtype(stored.dtype));
    FF_RETURN_IF_ERROR(file.Read(static_cast<char*>(tensor.mutable_data_ptr()), tensor.nbytes()));
    checksum.Add(BytesOf(tensor));
    package.weights.emplace(stored.name, std::move(tensor));
  }
  if (checksum.OfRest() != digits) return Bad("it is damaged: its checksum is another one");
  if (sha256.empty()) return package;
  if (const std::string own = checksum.OfFile(); own != sha256) {
    return Bad(absl::StrCat("its SHA-256 is ", own, ", not ", std::string(sha256)));
  }
  return package;
}

// What a tensor of a larger dtype may not follow comes last, so that each is aligned.
std::vector<std::pair<std::string, at::Tensor>> InOrder(const Package& package) {
  std::vector<std::pair<std::string, at::Tensor>> weights;
  for (const auto& [name, tensor] : package.weights) weights.emplace_back(name, tensor.detach().cpu().contiguous());
  std::stable_sort(weights.begin(), weights.end(),
                   [](const auto& a, const auto& b) { return a.second.itemsize() > b.second.itemsize(); });
  return weights;
}

}  // namespace

std::string_view Package::Text(const std::string& name) const {
  const auto found = texts.find(name);
  return found == texts.end() ? std::string_view() : std::string_view(found->second);
}

absl::StatusOr<std::string> WritePackage(const std::string& path, const Package& package) {
  for (const auto& [name, tensor] : package.weights) {
    if (name == "__metadata__") return absl::InvalidArgumentError("a weight cannot be named __metadata__");
    if (!HasSafetensorsForm(tensor.scalar_type())) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is of ", c10::toString(tensor.scalar_type()), ", which safetensors does not know"));
    }
  }
  const std::vector<std::pair<std::string, at::Tensor>> weights = InOrder(package);
  SafetensorsHeader header;
  header.texts = {{"framefuse_package", "1"}, {"sha256", std::string(kDigits, '0')}};
  header.texts.insert(header.texts.end(), package.texts.begin(), package.texts.end());
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : weights) {
    header.tensors.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), at, at + tensor.nbytes()});
    at += tensor.nbytes();
  }
  std::string json = PrintHeader(header);
  while ((kLengthBytes + json.size()) % kAlignment != 0) json.push_back(' ');
  const std::string size = LengthBytes(json.size());
  Sha256 rest;
  rest.Add(size).Add(kBegin).Add(std::string_view(json).substr(kBegin.size() + kDigits));
  for (const auto& [name, tensor] : weights) rest.Add(BytesOf(tensor));
  json.replace(kBegin.size(), kDigits, HexOf(rest.Finish()));
  Output out(path);
  Sha256 whole;
  whole.Add(size).Add(json);
  bool written = out.Write(size) && out.Write(json);
  for (const auto& [name, tensor] : weights) {
    written = written && out.Write(BytesOf(tensor));
    whole.Add(BytesOf(tensor));
  }
  if (!written) return FileError(path);
  FF_RETURN_IF_ERROR(out.Finish());
  return HexOf(whole.Finish());
}

absl::StatusOr<Package> ReadPackage(const std::string& path, std::string_view sha256) {
  const Input file(path);
  absl::StatusOr<Package> package = ReadFrom(file, sha256);
  if (package.ok() || absl::IsUnavailable(package.status())) return package;
  return absl::OutOfRangeError(absl::StrCat(path, " is not loaded: ", MessageOf(package.status())));
}

}  // namespace framefuse
