#include "symbolic/reconstruct/collect_effects.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/capture/capture.h"
#include "symbolic/journals/elements.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/number_arrays.h"

namespace framefuse {
namespace {

absl::Status CollectWrite(Tracked& t, const OverlayWrite& w, RecipeId target, RecipeBuilder& recipes,
                          std::vector<Effect>* effects) {
  Effect e;
  e.target = target;
  if (w.value) {
    absl::StatusOr<RecipeId> value = recipes.Of(w.value);
    if (!value.ok()) return value.status();
    e.value = *value;
  }
  switch (t.kind) {
    case TrackedKind::kSet: {
      absl::StatusOr<RecipeId> key = recipes.OfElement(w.key, /*may_be_fresh=*/true);
      if (!key.ok()) return key.status();
      e.key = *key;
      e.value = kNoRecipe;
      e.kind = w.value ? EffectKind::kAddElement : EffectKind::kDiscardElement;
      break;
    }
    case TrackedKind::kCell:
      e.kind = EffectKind::kStoreCell;
      break;
    case TrackedKind::kContextVariable:
      e.kind = EffectKind::kSetContext;
      break;
    case TrackedKind::kType:
      e.name = w.key;
      e.kind = EffectKind::kSetClassAttr;
      break;
    case TrackedKind::kDict: {
      absl::StatusOr<RecipeId> key = recipes.Of(w.key);
      if (!key.ok()) return key.status();
      e.key = *key;
      e.kind = w.value ? EffectKind::kSetItem : EffectKind::kDeleteItem;
      break;
    }
    case TrackedKind::kTensor:
    case TrackedKind::kList:
    case TrackedKind::kTuple:
    case TrackedKind::kDeque:
    case TrackedKind::kInstance:
    case TrackedKind::kInstanceDict:
    case TrackedKind::kFunction:
    case TrackedKind::kModule:
    case TrackedKind::kCallable:
    case TrackedKind::kView:
    case TrackedKind::kOpaque:
      e.name = w.key;
      e.kind = w.value ? EffectKind::kSetAttr : EffectKind::kDeleteAttr;
      break;
  }
  effects->push_back(std::move(e));
  return absl::OkStatus();
}

absl::Status CollectWrites(Tracked& t, RecipeId target, RecipeBuilder& recipes, std::vector<Effect>* effects) {
  for (const OverlayWrite& w : t.writes) {
    if (w.reinserted) {
      absl::Status s = CollectWrite(t, OverlayWrite{w.key, nullptr, false}, target, recipes, effects);
      if (!s.ok()) return s;
    }
    if (absl::Status s = CollectWrite(t, w, target, recipes, effects); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Step by step where the entry holds for other tables, too; else as the shadow's table stands.
absl::Status CollectSet(Tracked& t, RecipeId target, RecipeBuilder& recipes, std::vector<Effect>* effects) {
  if (!t.replaced) return absl::OkStatus();
  if (!t.layout_guarded) return CollectWrites(t, target, recipes, effects);
  const Ref copy = PlainCopy(t.representative);
  if (!copy) return absl::InternalError("a set could not be copied");
  absl::StatusOr<RecipeId> contents = recipes.Of(copy);
  if (!contents.ok()) return contents.status();
  Effect e;
  e.kind = EffectKind::kReplaceContents;
  e.target = target;
  e.value = *contents;
  effects->push_back(std::move(e));
  return absl::OkStatus();
}

absl::Status CollectOne(Tracked& t, RecipeBuilder& recipes, std::vector<Effect>* effects) {
  if (t.source == kNoSource) return MakeGraphBreak(GraphBreakKind::kUnsupportedWrite, "an object without a source");
  if (HoldsKeysThatCompare(t.representative)) {
    return MakeGraphBreak(GraphBreakKind::kUnsupportedWrite, "a change of what has keys with an __eq__ of their own");
  }
  const RecipeId target = recipes.FromSource(t.source);
  if (t.kind == TrackedKind::kSet) return CollectSet(t, target, recipes, effects);
  if (absl::Status s = CollectWrites(t, target, recipes, effects); !s.ok()) return s;
  if (!t.replaced && t.appended_from < 0) return absl::OkStatus();
  if (t.kind == TrackedKind::kTuple) return absl::OkStatus();
  // The shadow is rebuilt as a fresh container whose contents move into the original.
  PyObject* shadow = t.representative;
  const Ref copy = PlainCopy(shadow);
  if (!copy) return absl::InternalError("a container could not be copied");
  absl::StatusOr<RecipeId> contents = recipes.Of(copy);
  if (!contents.ok()) return contents.status();
  Effect e;
  e.kind = t.appended_from >= 0 ? EffectKind::kExtendList : EffectKind::kReplaceContents;
  e.target = target;
  e.value = *contents;
  effects->push_back(std::move(e));
  return absl::OkStatus();
}

absl::Status CollectCachedCalls(Capture& capture, RecipeBuilder& recipes, std::vector<Effect>* effects) {
  for (const CachedCall& call : capture.writes().calls()) {
    if (call.deferred) continue;
    RecipeId ids[] = {kNoRecipe, kNoRecipe, kNoRecipe};
    const Ref both =
        call.missed ? Ref::Steal(PyTuple_Pack(2, call.args.get(), call.kwargs ? call.kwargs.get() : Py_None)) : Ref();
    PyObject* const hit[] = {call.wrapper.get(), call.args.get(), call.kwargs.get()};
    PyObject* const miss[] = {call.wrapper.get(), both.get(), call.result.object.get()};
    for (int i = 0; i < 3; ++i) {
      PyObject* part = call.missed ? miss[i] : hit[i];
      if (part == nullptr) continue;
      absl::StatusOr<RecipeId> id = recipes.Of(part);
      if (!id.ok()) return id.status();
      ids[i] = *id;
    }
    const EffectKind kind = call.missed ? EffectKind::kKeepCached : EffectKind::kCallCached;
    effects->push_back(Effect{kind, ids[0], ids[1], ids[2], Ref()});
  }
  return absl::OkStatus();
}

// Last, when it is known what the entry makes.
absl::Status CollectDeferredCalls(Capture& capture, RecipeBuilder& recipes, std::vector<Effect>* effects) {
  for (const CachedCall& call : capture.writes().calls()) {
    bool outlive = call.deferred;
    for (Py_ssize_t i = 0; outlive && !call.always && i < PyTuple_GET_SIZE(call.args.get()); ++i) {
      outlive = recipes.Outlives(PyTuple_GET_ITEM(call.args.get(), i));
    }
    if (!outlive) continue;
    if (call.history != nullptr) {
      FF_RETURN_IF_ERROR(recipes.Of(call.result.object).status());
      continue;
    }
    absl::StatusOr<RecipeId> args = recipes.Of(call.args);
    if (!args.ok()) return args.status();
    effects->push_back(Effect{EffectKind::kCallCached, recipes.Constant(call.wrapper), *args, kNoRecipe, Ref()});
  }
  return absl::OkStatus();
}

// Nothing tells where the memory of an array ends up.
bool MayHaveWrittenArray(Capture& capture) {
  const std::vector<TensorInput>& inputs = capture.objects().tensor_inputs();
  const auto is_of_array = [&](const TensorInput& in) {
    return capture.reads().sources()[in.source].kind == SourceKind::kTensorOfArray;
  };
  const auto may_be_written = [](const TensorInput& in) { return MayBeWritten(in.fake); };
  const auto& seen = capture.objects().tracked().all();
  const auto is_unread = [](const auto& t) { return t->made != nullptr && t->source != kNoSource; };
  const bool any =
      std::any_of(inputs.begin(), inputs.end(), is_of_array) || std::any_of(seen.begin(), seen.end(), is_unread);
  return any && std::any_of(inputs.begin(), inputs.end(), may_be_written);
}

bool WroteWhatDecidesOfWarnings(Capture& capture) {
  const auto is_written = [&](PyObject* o) {
    const Tracked* t = capture.objects().FindByOriginal(o);
    const auto& globals = capture.writes().globals();
    const auto is_dict = [&](const auto& g) { return g.first.get() == o; };
    return (t != nullptr && t->mutated()) || std::any_of(globals.begin(), globals.end(), is_dict);
  };
  const std::vector<PyObject*> all = WhatDecidesOfWarnings();
  return std::any_of(all.begin(), all.end(), is_written);
}

// Numpy would say its warnings before all of them.
bool HasRecords(Capture& capture) {
  const std::vector<CachedCall>& calls = capture.writes().calls();
  return !capture.writes().warnings().empty() ||
         std::any_of(calls.begin(), calls.end(), [](const CachedCall& c) { return c.always; });
}

}  // namespace

absl::StatusOr<std::vector<Effect>> CollectEffects(Capture& capture, RecipeBuilder& recipes) {
  std::vector<Effect> effects;
  if (absl::Status s = recipes.arrays().AddThoseThatWarn(recipes, nullptr); !s.ok()) return s;
  const bool numpy_warns = !recipes.arrays().warnings().empty();
  if (numpy_warns && HasRecords(capture)) {
    return MakeGraphBreak(GraphBreakKind::kSideEffectCall, "a warning of numpy's beside others, or beside a log");
  }
  if ((numpy_warns || !capture.writes().warnings().empty()) && WroteWhatDecidesOfWarnings(capture)) {
    return MakeGraphBreak(GraphBreakKind::kSideEffectCall, "a change of what becomes of warnings, behind a warning");
  }
  if (MayHaveWrittenArray(capture)) {
    return MakeGraphBreak(GraphBreakKind::kTensorMutation, "a write to what may have the memory of an array of numpy");
  }
  if (absl::Status s = CollectCachedCalls(capture, recipes, &effects); !s.ok()) return s;
  const std::size_t count = capture.objects().tracked().all().size();
  for (std::size_t i = 0; i < count; ++i) {
    Tracked& t = *capture.objects().tracked().all()[i];
    if (!t.mutated()) continue;
    if (absl::Status s = CollectOne(t, recipes, &effects); !s.ok()) return s;
  }
  for (const auto& [dict, writes] : capture.writes().globals()) {
    const bool own = dict.get() == frame_ops::Globals(capture.frames().real_frame());
    const RecipeId target =
        own ? recipes.FromSource(capture.reads().sources().Intern(SourceKind::kGlobals, kNoSource, 0, nullptr))
            : recipes.Constant(dict);
    for (const OverlayWrite& w : writes) {
      if (!w.value || w.reinserted) {
        effects.push_back(Effect{EffectKind::kDeleteGlobal, target, kNoRecipe, kNoRecipe, w.key});
      }
      if (!w.value) continue;
      absl::StatusOr<RecipeId> value = recipes.Of(w.value);
      if (!value.ok()) return value.status();
      effects.push_back(Effect{EffectKind::kStoreGlobal, target, kNoRecipe, *value, w.key});
    }
  }
  if (absl::Status s = CollectDeferredCalls(capture, recipes, &effects); !s.ok()) return s;
  return effects;
}

}  // namespace framefuse
