// Building and unpacking containers, strings and slices.
#include "absl/container/inlined_vector.h"
#include "symbolic/evaluator/handler_table.h"

namespace framefuse {
namespace {

using BuildMethod = Value (Protocols::*)(Activation&, absl::Span<const ValueView>);

template <BuildMethod kMethod>
Step Build(Execution& e, const Instruction& in) {
  Value built;
  {
    const Operands items(e, in.pops, in.pops);
    built = (e.protocols.*kMethod)(e.act, items);
  }
  return e.Replace(in.pops, std::move(built));
}

Step BuildConstKeyMap(Execution& e, const Instruction& in) {
  Value built;
  {
    BorrowedRef keys = e.Peek(1);
    absl::InlinedVector<ValueView, 16> keys_and_values;
    for (int i = 0; i < in.arg; ++i) {
      keys_and_values.emplace_back(PyTuple_GET_ITEM(keys.get(), i), kNoSource);
      keys_and_values.push_back(e.View(in.arg + 1 - i));
    }
    built = e.protocols.BuildMap(e.act, keys_and_values);
  }
  return e.Replace(in.pops, std::move(built));
}

Step BuildSlice(Execution& e, const Instruction& in) {
  if (in.arg == 3) return e.Replace(3, e.protocols.BuildSlice(e.act, e.View(3), e.View(2), e.View(1)));
  return e.Replace(2, e.protocols.BuildSlice(e.act, e.View(2), e.View(1), {}));
}

// The container lies `arg` below the entry that is left on top.
Step ListAppend(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.ListAppend(e.act, e.Peek(in.arg + 1), e.View(1)), 1);
}
Step SetAdd(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.SetAdd(e.act, e.Peek(in.arg + 1), e.View(1)), 1);
}
Step MapAdd(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.MapAdd(e.act, e.Peek(in.arg + 2), e.View(2), e.View(1)), 2);
}
Step ListExtend(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.ListExtend(e.act, e.Peek(in.arg + 1), e.View(1)), 1);
}
Step SetUpdate(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.SetUpdate(e.act, e.Peek(in.arg + 1), e.View(1)), 1);
}
Step DictUpdate(Execution& e, const Instruction& in) {
  return e.Done(e.protocols.DictUpdate(e.act, e.Peek(in.arg + 1), e.View(1), nullptr), 1);
}
Step DictMerge(Execution& e, const Instruction& in) {
  // The callable, for messages, lies below the positional arguments, which lie below the dict.
  const int callable = in.arg + (kNullOverCallable ? 4 : 3);
  return e.Done(e.protocols.DictUpdate(e.act, e.Peek(in.arg + 1), e.View(1), e.Peek(callable)), 1);
}
Step ListToTuple(Execution& e, const Instruction&) { return e.Replace(1, e.protocols.ListToTuple(e.act, e.View(1))); }

Step FormatValue(Execution& e, const Instruction& in) {
  const bool with_spec = (in.arg & 4) != 0;
  const ValueView spec = with_spec ? e.View(1) : ValueView();
  return e.Replace(in.pops, e.protocols.FormatValue(e.act, e.View(in.pops), in.arg & 3, spec));
}

Step ConvertValue(Execution& e, const Instruction& in) {
  return e.Replace(1, e.protocols.ConvertValue(e.act, e.View(1), in.arg));
}
Step FormatSimple(Execution& e, const Instruction&) {
  return e.Replace(1, e.protocols.FormatValue(e.act, e.View(1), FVC_NONE, {}));
}
Step FormatWithSpec(Execution& e, const Instruction&) {
  return e.Replace(2, e.protocols.FormatValue(e.act, e.View(2), FVC_NONE, e.View(1)));
}

// [value, text] and, with the lowest bit, the format
Step BuildInterpolation(Execution& e, const Instruction& in) {
  const int with_format = in.arg & 1;
  const ValueView format = with_format != 0 ? e.View(1) : ValueView();
  return e.Replace(in.pops, e.protocols.BuildInterpolation(e.act, e.View(2 + with_format), e.Peek(1 + with_format),
                                                           in.arg >> 2, format));
}
Step BuildTemplate(Execution& e, const Instruction&) {
  return e.Replace(2, e.protocols.BuildTemplate(e.act, e.Peek(2), e.Peek(1)));
}

// Pushes so that the first element comes to the top.
Step PushUnpacked(Execution& e, bool ok, absl::Span<Value> values) {
  if (!ok) return Step::kError;
  e.Drop(1);
  for (auto value = values.rbegin(); value != values.rend(); ++value) e.Push(std::move(*value));
  return Step::kNext;
}

Step UnpackSequence(Execution& e, const Instruction& in) {
  absl::InlinedVector<Value, 8> values(static_cast<std::size_t>(in.arg));
  const bool ok = e.protocols.UnpackSequence(e.act, e.View(1), absl::MakeSpan(values));
  return PushUnpacked(e, ok, absl::MakeSpan(values));
}

Step UnpackEx(Execution& e, const Instruction& in) {
  const int before = in.arg & 0xff;
  const int after = in.arg >> 8;
  absl::InlinedVector<Value, 8> values(static_cast<std::size_t>(before + 1 + after));
  const bool ok = e.protocols.UnpackEx(e.act, e.View(1), before, after, absl::MakeSpan(values));
  return PushUnpacked(e, ok, absl::MakeSpan(values));
}

}  // namespace

void AddBuildHandlers(HandlerTable& table) {
  table.Add(Opcode::kBuildTuple, Build<&Protocols::BuildTuple>);
  table.Add(Opcode::kBuildList, Build<&Protocols::BuildList>);
  table.Add(Opcode::kBuildSet, Build<&Protocols::BuildSet>);
  table.Add(Opcode::kBuildMap, Build<&Protocols::BuildMap>);
  table.Add(Opcode::kBuildString, Build<&Protocols::BuildString>);
  table.Add(Opcode::kBuildConstKeyMap, BuildConstKeyMap);
  table.Add(Opcode::kBuildSlice, BuildSlice);
  table.Add(Opcode::kListAppend, ListAppend);
  table.Add(Opcode::kSetAdd, SetAdd);
  table.Add(Opcode::kMapAdd, MapAdd);
  table.Add(Opcode::kListExtend, ListExtend);
  table.Add(Opcode::kSetUpdate, SetUpdate);
  table.Add(Opcode::kDictUpdate, DictUpdate);
  table.Add(Opcode::kDictMerge, DictMerge);
  table.Add(Opcode::kListToTuple, ListToTuple);
  table.Add(Opcode::kFormatValue, FormatValue);
  table.Add(Opcode::kConvertValue, ConvertValue);
  table.Add(Opcode::kFormatSimple, FormatSimple);
  table.Add(Opcode::kFormatWithSpec, FormatWithSpec);
  table.Add(Opcode::kBuildInterpolation, BuildInterpolation);
  table.Add(Opcode::kBuildTemplate, BuildTemplate);
  table.Add(Opcode::kUnpackSequence, UnpackSequence);
  table.Add(Opcode::kUnpackEx, UnpackEx);
}

}  // namespace framefuse
