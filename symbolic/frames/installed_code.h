// Whose code a file holds: a package's that an installer put there, or the user's own. An installed package's folder
// has its *.dist-info beside it, wherever that is; a project that is installed in editable form is the user's own.
// Invariant: runs no Python; a folder is read once in a process.
#ifndef FRAMEFUSE_SYMBOLIC_FRAMES_INSTALLED_CODE_H_
#define FRAMEFUSE_SYMBOLIC_FRAMES_INSTALLED_CODE_H_

#include <Python.h>

namespace framefuse {

[[nodiscard]] bool IsInstalled(PyCodeObject* code);
// Neither installed nor of Python's standard library.
[[nodiscard]] bool IsUsersCode(PyCodeObject* code);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_FRAMES_INSTALLED_CODE_H_
