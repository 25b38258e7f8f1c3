#include "symbolic/learned/value_places.h"

namespace framefuse {

void ValuePlaces::Begin(Rely rely) {
  rely_ = rely;
  ++capture_;
}

bool ValuePlaces::MayRelyOn(PyCodeObject* code, int instruction, std::uint64_t digest) {
  if (rely_ == Rely::kNever) return false;
  Place& place = places_[{code, instruction}];
  if (place.seen.contains(digest)) return true;
  if (place.newest_for != capture_) {
    if (place.versions >= kMostVersions && rely_ != Rely::kAlways) return false;
    ++place.versions;
    place.newest_for = capture_;
  }
  place.seen.insert(digest);
  return true;
}

}  // namespace framefuse
