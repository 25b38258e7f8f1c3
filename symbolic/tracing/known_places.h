// known_places: where a mask is true, as nonzero told before. Who asks again gets the same value, and so the same
// symbol; a backward pass, where no symbol is defined, has no other.
// Invariant: nothing wrote the mask or the places since.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_KNOWN_PLACES_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_KNOWN_PLACES_H_

#include <ATen/core/Tensor.h>

namespace framefuse::tracing {

class Recorder;

// Undefined: it was not asked for, or it may tell something else by now.
at::Tensor KnownPlaces(Recorder& recorder, const at::Tensor& mask);

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_KNOWN_PLACES_H_
