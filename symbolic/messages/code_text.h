// code_text: names, lines and source text of code objects, for messages.
// Invariant: never fails and never leaves a Python error set; unknown parts come back empty.
#ifndef FRAMEFUSE_SYMBOLIC_MESSAGES_CODE_TEXT_H_
#define FRAMEFUSE_SYMBOLIC_MESSAGES_CODE_TEXT_H_

#include <Python.h>

#include <string>

#include "frame_eval/ref.h"

namespace framefuse {

bool IsCellSlot(PyCodeObject* code, int slot);  // holds a cell: a captured local or a free variable
std::string FileNameOf(PyCodeObject* code);
std::string NameOf(PyCodeObject* code);           // co_name
std::string QualifiedNameOf(PyCodeObject* code);  // co_qualname
int LineOf(PyCodeObject* code, int instruction);
std::string SourceLine(PyCodeObject* code, int line);  // stripped; through linecache
std::string RawSourceLine(PyCodeObject* code, int line);
std::string SourceText(const std::string& file);  // the whole

std::string Utf8(PyObject* text);                     // of a str; empty otherwise
std::string_view NameOfCallable(PyObject* callable);  // without module and class; "" where it has none
std::string DescribeCallable(PyObject* callable);     // module.qualname or the type's name; no user code

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_MESSAGES_CODE_TEXT_H_
