// An embedded interpreter for GoogleTest programs: started once, with the standard library of the interpreter that the
// project is built for. Execute runs statements, Eval an expression, both in one namespace; a Python error fails the
// test.
#ifndef FRAMEFUSE_TESTS_FRAME_EVAL_PYTHON_ENVIRONMENT_H_
#define FRAMEFUSE_TESTS_FRAME_EVAL_PYTHON_ENVIRONMENT_H_

#include <string>

#include "frame_eval/ref.h"

namespace framefuse::testing {

void StartPython();
BorrowedRef Namespace();
void Execute(const std::string& statements);
Ref Eval(const std::string& expression);
bool IsTrue(const std::string& expression);
void Set(const char* name, BorrowedRef value);

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_FRAME_EVAL_PYTHON_ENVIRONMENT_H_
