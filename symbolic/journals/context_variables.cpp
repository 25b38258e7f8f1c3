#include "symbolic/journals/context_variables.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "guards/read.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"

namespace framefuse {
namespace {

// While it lives, variables are read and set there.
class InContext {
 public:
  explicit InContext(BorrowedRef context) : context_(context), entered_(PyContext_Enter(context) == 0) {}
  ~InContext() {
    if (entered_ && PyContext_Exit(context_) < 0) PyErr_Clear();
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  BorrowedRef context_;
  bool entered_;
};

}  // namespace

std::optional<Value> ContextVariables::Call(Tracked& variable, absl::string_view method,
                                            absl::Span<const ValueView> args) {
  if (method == "get") return args.size() <= 1 ? std::optional<Value>(Get(variable, args)) : std::nullopt;
  if (method == "set") return args.size() == 1 ? std::optional<Value>(Set(variable, args[0])) : std::nullopt;
  if (method == "reset") {
    const bool by_token = args.size() == 1 && PyContextToken_CheckExact(args[0].object.get());
    return by_token ? std::optional<Value>(Reset(variable, args[0].object)) : std::nullopt;
  }
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, absl::StrCat("ContextVar.", method));
}

Value ContextVariables::Get(Tracked& variable, absl::Span<const ValueView> args) {
  const auto [own, source] = Before(variable);
  if (!reads_.MayRead(source)) return Value();
  if (const OverlayWrite* w = variable.FindWrite(nullptr)) return Value{w->value, kNoSource};
  if (own) return objects_.Adopt(own, source);
  reads_.AddGuard(source, GuardKind::kNull, nullptr);
  if (!args.empty()) return Value{Ref::Create(args[0].object), args[0].source};
  const SourceId otherwise = reads_.sources().Intern(SourceKind::kContextDefault, variable.source, 0, nullptr);
  if (const Ref given = DefaultInContext(variable.original)) return objects_.Adopt(given, otherwise);
  reads_.AddGuard(otherwise, GuardKind::kNull, nullptr);
  PyErr_SetObject(PyExc_LookupError, variable.original);
  return Value();
}

// The token has the value from before as an attribute, which is read without a guard.
bool ContextVariables::Copy(Tracked& variable) {
  if (std::find(copied_.begin(), copied_.end(), &variable) != copied_.end()) return true;
  if (!context_) context_ = Ref::Steal(PyContext_New());
  const auto [own, source] = Before(variable);
  if (own) {
    const Value before = objects_.Adopt(own, source);
    if (!before || !context_) return false;
    reads_.Consume(before);
    const InContext there(context_);
    const Ref token = there ? Ref::Steal(PyContextVar_Set(variable.original, before.object)) : Ref();
    if (!token) return false;
  } else {
    reads_.AddGuard(source, GuardKind::kNull, nullptr);
    const InContext there(context_);
    if (const Ref stays = ValueInContext(variable.original)) {
      return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, "a context variable is set that was unset before");
    }
  }
  copied_.push_back(&variable);
  return static_cast<bool>(context_);
}

Value ContextVariables::Set(Tracked& variable, ValueView value) {
  if (!backward_.MayWrite()) return Value();
  if (PyCapsule_CheckExact(value.object.get()))
    return breaks_.Break(GraphBreakKind::kUnsupportedWrite, "a context variable that C code reads");
  reads_.Move(value);
  if (!Copy(variable)) return Value();
  Ref token;
  {
    const InContext there(context_);
    if (there) token = Ref::Steal(PyContextVar_Set(variable.original, value.object));
  }
  if (!token || !writes_.Write(variable, nullptr, Ref::Create(value.object))) return Value();
  variable.compared = true;  // another variable that is this one in a later call would have been set, too
  settings_.push_back({&variable, token, Ref::Create(value.object)});
  return Value{std::move(token), kNoSource};
}

Value ContextVariables::Reset(Tracked& variable, BorrowedRef token) {
  if (!backward_.MayWrite()) return Value();
  const auto is_its_own = [&](const Setting& s) {
    return s.value && s.token.get() == token.get() && s.variable == &variable;
  };
  const auto own = std::find_if(settings_.begin(), settings_.end(), is_its_own);
  if (own == settings_.end()) return ResetByEarlier(variable, token);
  {
    const InContext there(context_);
    if (!there || PyContextVar_Reset(variable.original, token.get()) < 0) return Value();
  }
  const auto is_of_it = [&](const Setting& s) { return s.variable == &variable; };
  settings_.erase(std::remove_if(own, settings_.end(), is_of_it), settings_.end());
  const auto latest = std::find_if(settings_.rbegin(), settings_.rend(), is_of_it);
  if (latest == settings_.rend() || !latest->value) {
    writes_.TakeBack(variable);
  } else if (!writes_.Write(variable, nullptr, latest->value)) {
    return Value();
  }
  return Value{Ref::Create(Py_None), kNoSource};
}

// What the token sets the variable back to is a value with a source: the token's. The reset itself is an effect.
Value ContextVariables::ResetByEarlier(Tracked& variable, BorrowedRef token) {
  static PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyContextVar_Type), "reset");
  const Tracked* t = objects_.Find(token);
  const auto was_used = [&](const Setting& s) {
    if (s.variable != &variable || s.value) return false;
    const Ref now = ValueInContext(s.token);
    return s.token.get() == token.get() || now.get() == nullptr;
  };
  const Ref resets = DefaultInContext(token);
  const bool usable = t != nullptr && t->source != kNoSource && resets.get() == variable.original.get();
  if (!usable || variable.FindWrite(nullptr) != nullptr || absl::c_any_of(settings_, was_used)) {
    return breaks_.Break(GraphBreakKind::kUnsupportedWrite,
                         "a context variable is reset by a token that this piece of the frame did not make");
  }
  const SourceId own_variable = reads_.sources().Intern(SourceKind::kContextDefault, t->source, 0, nullptr);
  reads_.AddGuard(own_variable, GuardKind::kSameAs, nullptr, variable.source);
  // What it was set to may end.
  if (!writes_.Write(variable, nullptr, Ref::Create(Py_None))) return Value();
  writes_.TakeBack(variable);
  variable.compared = true;
  copied_.erase(std::remove(copied_.begin(), copied_.end(), &variable), copied_.end());
  settings_.push_back({&variable, Ref::Create(token), Ref()});
  CachedCall call;
  call.wrapper = Ref::Create(method);
  call.args = Ref::Steal(PyTuple_Pack(2, variable.original.get(), token.get()));
  if (!call.args) return Value();
  writes_.AddCall(std::move(call));
  return Value{Ref::Create(Py_None), kNoSource};
}

const ContextVariables::Setting* ContextVariables::ResetBy(const Tracked& variable) const {
  const auto resets = [&](const Setting& s) { return s.variable == &variable && !s.value; };
  const auto last = std::find_if(settings_.rbegin(), settings_.rend(), resets);
  return last == settings_.rend() ? nullptr : &*last;
}

std::pair<Ref, SourceId> ContextVariables::Before(const Tracked& variable) {
  const Setting* reset = ResetBy(variable);
  const SourceId from = reset != nullptr ? objects_.Find(reset->token)->source : variable.source;
  const SourceId source = reads_.sources().Intern(SourceKind::kContextValue, from, 0, nullptr);
  return {ValueInContext(reset != nullptr ? reset->token : variable.original), source};
}

std::vector<ContextVariables::Setting> ContextVariables::SettingsUpTo(BorrowedRef token) const {
  const auto is_its_own = [&](const Setting& s) { return s.value && s.token.get() == token.get(); };
  const auto own = std::find_if(settings_.begin(), settings_.end(), is_its_own);
  std::vector<Setting> settings;
  if (own == settings_.end()) return settings;
  for (auto s = settings_.begin(); s <= own; ++s) {
    if (s->variable == own->variable && !s->value) return {};
    if (s->variable == own->variable) settings.push_back(*s);
  }
  return settings;
}

}  // namespace framefuse
