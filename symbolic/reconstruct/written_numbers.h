// written_numbers: places of the program's own that a frame gives a number, as the next call reads them. What a frame
// writes it counts or schedules: a later capture takes such a number for symbolic without waiting until it differs.
#ifndef FRAMEFUSE_SYMBOLIC_RECONSTRUCT_WRITTEN_NUMBERS_H_
#define FRAMEFUSE_SYMBOLIC_RECONSTRUCT_WRITTEN_NUMBERS_H_

#include <string>
#include <vector>

namespace framefuse {

class Capture;

// Texts of their sources, of those that held a number before.
std::vector<std::string> WrittenNumbers(Capture& capture);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RECONSTRUCT_WRITTEN_NUMBERS_H_
