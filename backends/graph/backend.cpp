#include "backends/graph/backend.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/collectives.h"

namespace framefuse {
namespace {

struct Registered {
  BackendFactory factory;
  std::unique_ptr<Backend> backend;
};

struct Registry {
  std::mutex mutex;
  absl::flat_hash_map<std::string, Registered> backends;
};

Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

constexpr char kTorchErrorUrl[] = "framefuse/torch-error";
constexpr char kInputsUntouchedUrl[] = "framefuse/inputs-untouched";
constexpr char kRaisedByHookUrl[] = "framefuse/raised-by-hook";
constexpr char kDeferredUrl[] = "framefuse/deferred-fact";

}  // namespace

bool RegisterBackend(std::string name, BackendFactory factory) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  return registry.backends.try_emplace(std::move(name), Registered{std::move(factory), nullptr}).second;
}

Backend* FindBackend(std::string_view name) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  auto it = registry.backends.find(std::string(name));
  if (it == registry.backends.end()) return nullptr;
  if (it->second.backend == nullptr) it->second.backend = it->second.factory();
  return it->second.backend.get();
}

std::vector<std::string> ListBackends() {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, entry] : registry.backends) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status TorchErrorStatus(std::exception_ptr exception, std::string_view where) {
  std::string what = "unknown exception";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {  // not a std::exception: only the payload knows what it is
  }
  absl::Status status = absl::InternalError(
      where.empty() ? what : absl::StrCat(absl::string_view(where.data(), where.size()), ": ", what));
  // The payload is a pointer to the exception; the cord owns what it points to. An absl::Cord shares external
  // memory between copies, so the exception lives as long as any copy of the status.
  struct Held {
    std::exception_ptr exception;
    std::exception_ptr* self;
  };
  auto* held = new Held{std::move(exception), nullptr};
  held->self = &held->exception;
  absl::string_view bytes(reinterpret_cast<const char*>(&held->self), sizeof(held->self));
  status.SetPayload(kTorchErrorUrl, absl::MakeCordFromExternal(bytes, [held](absl::string_view) { delete held; }));
  return status;
}

std::exception_ptr TorchErrorOf(const absl::Status& status) {
  auto payload = status.GetPayload(kTorchErrorUrl);
  std::exception_ptr* exception = nullptr;
  if (!payload.has_value() || payload->size() != sizeof(exception)) return nullptr;
  std::string bytes(*payload);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(&exception));
  return *exception;
}

void MarkInputsTouched(absl::Status& status) { status.ErasePayload(kInputsUntouchedUrl); }
void MarkInputsUntouched(absl::Status& status) { status.SetPayload(kInputsUntouchedUrl, absl::Cord("1")); }
bool AreInputsUntouched(const absl::Status& status) { return status.GetPayload(kInputsUntouchedUrl).has_value(); }

void MarkRaisedByHook(absl::Status& status) { status.SetPayload(kRaisedByHookUrl, absl::Cord("1")); }
bool IsRaisedByHook(const absl::Status& status) { return status.GetPayload(kRaisedByHookUrl).has_value(); }

absl::Status DeferredFailure(std::size_t fact) {
  absl::Status status = absl::FailedPreconditionError("what the graph computed is not as it was taken to be");
  status.SetPayload(kDeferredUrl, absl::Cord(absl::StrCat(fact)));
  MarkInputsUntouched(status);
  return status;
}

std::optional<std::size_t> DeferredFailureOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kDeferredUrl);
  std::size_t fact = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &fact)) return std::nullopt;
  return fact;
}

}  // namespace framefuse
