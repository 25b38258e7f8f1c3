// Warnings in an attempt, which breaks where one is about to be shown: Python warns in its turn, by the filters of the
// moment. Invariant: whether an attempt sees a warning does not depend on the filters that the program has set, which
// may be others when the entry runs; the program's code never sees the filter that is added for that.
#ifndef FRAMEFUSE_SYMBOLIC_AMBIENT_SHOWN_WARNINGS_H_
#define FRAMEFUSE_SYMBOLIC_AMBIENT_SHOWN_WARNINGS_H_

#include "frame_eval/ref.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {

bool ShowsWarning(PyCodeObject* code);  // of warnings._showwarnmsg
// Of warnings.WarningMessage.__init__, which C calls before that with what it is to show.
bool DescribesWarning(frame_ops::Frame* frame);
// Takes the warning that `show`, a frame of that function, was called with out of a module's registry.
void ForgetWarning(frame_ops::Frame* show, PyObject* globals);

// While one lives, all warnings are shown.
class AllWarningsShown {
 public:
  AllWarningsShown();
  ~AllWarningsShown();
  AllWarningsShown(const AllWarningsShown&) = delete;
  AllWarningsShown& operator=(const AllWarningsShown&) = delete;

 private:
  Ref filters_;  // to which the filter was added; null: it was there
};

// While one lives, the filters are the program's again: its code runs within C code that was called.
class FiltersOfProgram {
 public:
  FiltersOfProgram();
  ~FiltersOfProgram();
  FiltersOfProgram(const FiltersOfProgram&) = delete;
  FiltersOfProgram& operator=(const FiltersOfProgram&) = delete;

 private:
  Ref filters_;  // from which the filter was taken; null: it was not there
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_AMBIENT_SHOWN_WARNINGS_H_
