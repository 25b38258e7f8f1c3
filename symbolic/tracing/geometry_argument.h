// What a method that changes a tensor's own sizes and strides is called with: an integer, or a list of them.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_GEOMETRY_ARGUMENT_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_GEOMETRY_ARGUMENT_H_

#include <cstdint>
#include <vector>

namespace framefuse::tracing {

struct GeometryArgument {
  std::vector<std::int64_t> numbers;
  bool is_list = false;
};

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_GEOMETRY_ARGUMENT_H_
