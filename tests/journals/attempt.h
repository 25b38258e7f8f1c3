// Attempt: the journals of an attempt that stands at the beginning of a Python function, without an evaluator: a test
// does to them what instructions would, changes the live state, and asks whether the guards still hold.
// Invariant: it lives inside the hook, on the stack of InAttempt::At, and ends as Capture does.
#ifndef FRAMEFUSE_TESTS_JOURNALS_ATTEMPT_H_
#define FRAMEFUSE_TESTS_JOURNALS_ATTEMPT_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "symbolic/journals/journals.h"
#include "tests/frame_eval/python_environment.h"

namespace framefuse::testing {

// A frame of a Python function that stands before its first instruction; pushed and popped with its scope.
class InnerFrame {
 public:
  InnerFrame(Journals& journals, const char* function, Completion completion);
  ~InnerFrame();
  InnerFrame(const InnerFrame&) = delete;
  InnerFrame& operator=(const InnerFrame&) = delete;

  Activation act;

 private:
  FrameStack& frames_;
};

class Attempt {
 public:
  Attempt(PyThreadState* thread, frame_ops::Frame* frame, const CaptureOptions& options);
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  FrameStack& frames() { return journals.frames(); }
  BreakController& breaks() { return journals.breaks(); }
  ReadJournal& reads() { return journals.reads(); }
  WriteJournal& writes() { return journals.writes(); }
  ObjectTable& objects() { return journals.objects(); }
  ObjectContents& contents() { return journals.contents(); }
  NativeArguments& arguments() { return journals.arguments(); }
  NativeBoundary& boundary() { return journals.boundary(); }
  MadeClasses& made() { return journals.made(); }

  // A parameter of the function, as the first LOAD of it gives it.
  Value Load(int slot);
  Tracked* Track(int slot) { return objects().Find(Load(slot).object); }
  // In the call that the guards are asked about next, the parameter is this one.
  void SetNext(int slot, const char* expression);
  // As an entry that is installed at the first question after a guard was added.
  bool GuardsHold();
  std::size_t guard_count() { return reads().guards().guards().size(); }
  // The kind of the break, or none: the attempt goes on.
  std::optional<GraphBreakKind> BrokeWith();

  Control control;
  Journals journals;
  Activation root;

 private:
  PyThreadState* thread_;
  frame_ops::Frame* real_;
  std::vector<Ref> held_;
  std::vector<PyObject*> slots_;
  std::unique_ptr<GuardProgram> program_;
  std::size_t compiled_ = 0;
};

class InAttempt : public ::testing::Test {
 protected:
  static void SetUpTestSuite();

  using Body = std::function<void(Attempt&)>;
  // Evaluates `call`, a call of a function named f; `body` runs where the frame of that begins.
  static void At(const char* call, const Body& body, const CaptureOptions& options = {});
};

Ref Name(const char* text);

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_JOURNALS_ATTEMPT_H_
