# The Python to build for. Defines ff_python (headers; symbols are resolved by the interpreter that loads us)
# and, where a libpython exists, ff_python_embed (headers and libpython: for GoogleTest programs).

if(NOT Python_EXECUTABLE)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(Python_EXECUTABLE NAMES python3 REQUIRED)
  endif()
endif()

# sysconfig of the interpreter itself, not FindPython: it cannot pick another installation's headers.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "
import importlib.util, os, sys, sysconfig
def folder(module):
    spec = importlib.util.find_spec(module)
    return os.path.dirname(spec.origin) if spec and spec.origin else ''
var = sysconfig.get_config_var
names = [var('LDLIBRARY') or '', var('INSTSONAME') or '', 'libpython%d.%d.so' % sys.version_info[:2]]
places = [var('LIBDIR') or '', var('LIBPL') or '', os.path.join(var('LIBDIR') or '', var('MULTIARCH') or '')]
libs = [p for d in places for n in names if n for p in [os.path.join(d, n)] if os.path.isfile(p)]
print('%d.%d' % sys.version_info[:2], sysconfig.get_paths()['include'], libs[0] if libs else '',
      var('EXT_SUFFIX'), folder('torch'), folder('pybind11'), var('Py_GIL_DISABLED') or 0, sep='|')"
  OUTPUT_VARIABLE ff_python_facts OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "|" ";" ff_python_facts "${ff_python_facts}")
list(GET ff_python_facts 0 FF_PYTHON_VERSION)
list(GET ff_python_facts 1 FF_PYTHON_INCLUDE)
list(GET ff_python_facts 2 FF_PYTHON_LIBRARY)
list(GET ff_python_facts 3 FF_PYTHON_SUFFIX)
list(GET ff_python_facts 4 FF_TORCH_FOLDER)
list(GET ff_python_facts 5 FF_PYBIND11_FOLDER)
list(GET ff_python_facts 6 ff_python_free_threaded)
message(STATUS "Python ${FF_PYTHON_VERSION}: ${Python_EXECUTABLE}, headers ${FF_PYTHON_INCLUDE}, library ${FF_PYTHON_LIBRARY}")

if(FF_PYTHON_VERSION VERSION_LESS 3.11 OR FF_PYTHON_VERSION VERSION_GREATER_EQUAL 3.15)
  message(FATAL_ERROR "framefuse builds for Python 3.11 to 3.14; ${Python_EXECUTABLE} is ${FF_PYTHON_VERSION}")
endif()
if(ff_python_free_threaded)
  message(FATAL_ERROR "framefuse needs the GIL; ${Python_EXECUTABLE} is a free-threaded build of Python")
endif()
if(NOT EXISTS ${FF_PYTHON_INCLUDE}/Python.h)
  message(FATAL_ERROR "No Python.h in ${FF_PYTHON_INCLUDE}: install the headers of Python ${FF_PYTHON_VERSION} (python3-dev)")
endif()

add_library(ff_python INTERFACE)
target_include_directories(ff_python SYSTEM INTERFACE ${FF_PYTHON_INCLUDE})

if(FF_PYTHON_LIBRARY)
  get_filename_component(ff_python_library_folder ${FF_PYTHON_LIBRARY} DIRECTORY)
  add_library(ff_python_embed INTERFACE)
  target_link_libraries(ff_python_embed INTERFACE ff_python ${FF_PYTHON_LIBRARY} ${CMAKE_DL_LIBS} m)
  # A static libpython must export its symbols to the extension modules of the standard library.
  target_link_options(ff_python_embed INTERFACE -rdynamic -Wl,-rpath,${ff_python_library_folder})
  # The interpreter's own prefix, for programs that embed it (PYTHONHOME does not know virtual environments).
  target_compile_definitions(ff_python_embed INTERFACE FF_PYTHON_EXECUTABLE="${Python_EXECUTABLE}")
endif()
