// Number arrays: numpy's arrays of plain numbers. One that existed before the frame is read as it is while a guard
// compares its contents in each call; what numpy makes of arrays and numbers in a capture are values that follow from
// guards. Invariant: nothing captured writes an array, so that no call of C code can tell an array from a copy of it.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_NUMBER_ARRAYS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_NUMBER_ARRAYS_H_

#include <cstdint>
#include <string_view>

#include "frame_eval/ref.h"
#include "guards/guard.h"
#include "symbolic/evaluator/value.h"

namespace framefuse {

bool IsArrayType(PyTypeObject* type);  // numpy.ndarray itself
inline bool IsArray(BorrowedRef object) { return IsArrayType(object.type()); }
// Numbers or truth values, and not too many to compare in each call.
bool IsNumberArray(BorrowedRef object);
// Whether it, or only a part of what it holds, is an argument of a call that may write there (`out`).
bool MayWriteArray(BorrowedRef function, absl::Span<const ValueView> args, BorrowedRef kwnames);
// Numpy's own code warns of fewer numbers than degrees of freedom, whatever they are.
bool WarnsOfTooFew(BorrowedRef function, absl::Span<const ValueView> args, BorrowedRef kwnames);
bool IsTypeOfNumbers(BorrowedRef object);     // a numpy.dtype
bool IsOwnTypeOfNumbers(BorrowedRef object);  // the one that numpy has of its kind
// What numpy may be given and give: numbers, their types, texts, arrays of numbers, tuples and lists of such.
bool IsForNumpy(BorrowedRef object);
// The fake of an input was written in the recording: what shares memory with the input is no longer as it was.
bool IsWritten(BorrowedRef fake);
bool MayBeWritten(BorrowedRef fake);          // or nothing tells
bool HasLayoutOfNumbers(BorrowedRef object);  // an array of numbers, as large as it may be
std::uint64_t DigestOfContents(BorrowedRef array);
// Adds a guard on what the array at `source` holds.
void GuardContents(BorrowedRef array, SourceId source, GuardSet& guards);
void GuardLayoutOf(BorrowedRef array, SourceId source, GuardSet& guards);  // type, sizes, strides

// Attributes and methods that follow from type, sizes and numbers, and write nothing.
bool IsReadAttribute(std::string_view name);
bool IsSizeAttribute(std::string_view name);  // or the type of its numbers
bool IsReadMethod(std::string_view name);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_NUMBER_ARRAYS_H_
