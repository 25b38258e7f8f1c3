// Tests of the frame-evaluation hook: modes, threads, nesting.
#include "frame_eval/hook.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/frame_eval/python_environment.h"

namespace framefuse {
namespace {

using testing::Execute;
using testing::IsTrue;

// Notes the names of the frames it gets and runs them natively.
class Recorder : public FrameHandler {
 public:
  PyObject* OnFrame(PyThreadState* thread, frame_ops::Frame* frame, int throw_flag) override {
    names.push_back(PyUnicode_AsUTF8(frame_ops::Code(frame)->co_name));
    if (names.back() == "quiet") {
      HookScope off(HookMode::kOff);
      return RunUnhooked(thread, frame, throw_flag);
    }
    return RunUnhooked(thread, frame, throw_flag);
  }
  std::vector<std::string> names;
};

class HookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Execute(
        "def inner(): return 1\n"
        "def outer(): return inner() + 1\n"
        "def quiet(): return inner() + 1\n"
        "def gen():\n  yield inner()\n  yield 2\n"
        "def fails(): raise ValueError('x')\n");
  }
};

TEST_F(HookTest, OffUnlessAScopeWithAHandlerIsOpen) {
  EXPECT_EQ(frame_ops::GetEvalFunction(), nullptr);
  EXPECT_EQ(CurrentHookMode(), HookMode::kOff);
  Recorder recorder;
  {
    HookScope scope(HookMode::kRun, &recorder);
    EXPECT_NE(frame_ops::GetEvalFunction(), nullptr);
    EXPECT_EQ(CurrentHookMode(), HookMode::kRun);
    EXPECT_EQ(CurrentFrameHandler(), &recorder);
    EXPECT_TRUE(IsTrue("outer() == 2"));
  }
  EXPECT_EQ(frame_ops::GetEvalFunction(), nullptr);
  EXPECT_EQ(recorder.names, (std::vector<std::string>{"<module>", "outer", "inner"}));
  EXPECT_TRUE(IsTrue("outer() == 2"));
  EXPECT_EQ(recorder.names.size(), 3u);
}

TEST_F(HookTest, TheInnermostScopeDecides) {
  Recorder outer, inner;
  HookScope first(HookMode::kRun, &outer);
  {
    HookScope second(HookMode::kCapture, &inner);
    EXPECT_TRUE(IsTrue("inner() == 1"));
    HookScope third(HookMode::kDisabled);
    EXPECT_TRUE(IsTrue("inner() == 1"));
  }
  EXPECT_EQ(inner.names, (std::vector<std::string>{"<module>", "inner"}));
  EXPECT_TRUE(outer.names.empty());
  EXPECT_EQ(CurrentHookMode(), HookMode::kRun);
  EXPECT_TRUE(IsTrue("quiet() == 2"));
  EXPECT_EQ(outer.names, (std::vector<std::string>{"<module>", "quiet"}));
}

TEST_F(HookTest, GeneratorsAndExceptionsPassThrough) {
  Recorder recorder;
  HookScope scope(HookMode::kRun, &recorder);
  EXPECT_TRUE(IsTrue("list(gen()) == [1, 2]"));
  Execute("try: fails()\nexcept ValueError as e: text = str(e)");
  EXPECT_TRUE(IsTrue("text == 'x'"));
}

TEST_F(HookTest, OtherThreadsRunNatively) {
  Recorder recorder;
  HookScope scope(HookMode::kRun, &recorder);
  Execute("seen = []\nt = threading.Thread(target=lambda: seen.append(outer()))\nt.start()\nt.join()\n");
  EXPECT_TRUE(IsTrue("seen == [2]"));
  for (const std::string& name : recorder.names) EXPECT_NE(name, "outer");
}

}  // namespace
}  // namespace framefuse
