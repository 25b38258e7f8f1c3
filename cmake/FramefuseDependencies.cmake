# What comes from outside: abseil (ff_absl), Xbyak (ff_xbyak), PyTorch (ff_torch), pybind11 (ff_pybind11), GoogleTest
# (ff_gtest). Headers are SYSTEM, so that our warnings stay ours. FF_DEB_ROOT, when given, is looked at first.

set(ff_prefixes)
if(FF_DEB_ROOT)
  list(APPEND ff_prefixes ${FF_DEB_ROOT}/usr)
endif()
set(ff_lib_suffixes lib/x86_64-linux-gnu lib/aarch64-linux-gnu lib)

# ---- abseil: every shared library of it, as needed. Only those that are used become dependencies.
find_path(FF_ABSL_INCLUDE absl/status/statusor.h HINTS ${ff_prefixes} PATH_SUFFIXES include)
find_library(FF_ABSL_STATUS NAMES libabsl_status.so HINTS ${ff_prefixes} PATH_SUFFIXES ${ff_lib_suffixes})
if(NOT FF_ABSL_INCLUDE OR NOT FF_ABSL_STATUS)
  message(FATAL_ERROR "abseil was not found: apt-get install libabsl-dev, or give -DFF_DEB_ROOT=<unpacked packages>")
endif()
get_filename_component(FF_ABSL_FOLDER ${FF_ABSL_STATUS} DIRECTORY)
file(GLOB ff_absl_libraries ${FF_ABSL_FOLDER}/libabsl_*.so)
list(FILTER ff_absl_libraries EXCLUDE REGEX "libabsl_flags|_test_|scoped_mock_log")
add_library(ff_absl INTERFACE)
target_include_directories(ff_absl SYSTEM INTERFACE ${FF_ABSL_INCLUDE})
target_link_libraries(ff_absl INTERFACE -Wl,--push-state,--as-needed ${ff_absl_libraries} -Wl,--pop-state)
target_link_options(ff_absl INTERFACE -Wl,-rpath-link,${FF_ABSL_FOLDER})
if(NOT FF_WHEEL)
  target_link_options(ff_absl INTERFACE -Wl,-rpath,${FF_ABSL_FOLDER})
endif()

# ---- Xbyak: headers only
find_path(FF_XBYAK_INCLUDE xbyak/xbyak.h HINTS ${ff_prefixes} PATH_SUFFIXES include)
add_library(ff_xbyak INTERFACE)
if(FF_XBYAK_INCLUDE)
  target_include_directories(ff_xbyak SYSTEM INTERFACE ${FF_XBYAK_INCLUDE})
endif()

# ---- PyTorch, straight from its package: its own CMake files look for CUDA, MKL and more that we never call.
if(FF_WITH_TORCH)
  if(NOT FF_TORCH_FOLDER)
    message(FATAL_ERROR "${Python_EXECUTABLE} has no torch (configure with -DFF_WITH_TORCH=OFF to build what needs none)")
  endif()
  file(STRINGS ${FF_TORCH_FOLDER}/version.py ff_torch_version REGEX "^__version__")
  message(STATUS "PyTorch: ${FF_TORCH_FOLDER} (${ff_torch_version})")
  add_library(ff_torch INTERFACE)
  target_include_directories(ff_torch SYSTEM INTERFACE
    ${FF_TORCH_FOLDER}/include ${FF_TORCH_FOLDER}/include/torch/csrc/api/include)
  # libtorch re-exports libtorch_cpu (and _cuda); as-needed would drop the libraries that only register operators.
  foreach(name IN ITEMS c10 torch torch_cpu)
    target_link_libraries(ff_torch INTERFACE ${FF_TORCH_FOLDER}/lib/lib${name}.so)
  endforeach()
  target_link_libraries(ff_torch INTERFACE ff_python)
  if(NOT FF_WHEEL)
    target_link_options(ff_torch INTERFACE -Wl,-rpath,${FF_TORCH_FOLDER}/lib)
  endif()
  # Standard library ABI that the package was built with.
  file(STRINGS ${FF_TORCH_FOLDER}/share/cmake/Torch/TorchConfig.cmake ff_torch_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(ff_torch_abi)
    target_compile_definitions(ff_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=0)
  endif()
  # The Python side of torch (THPVariable_Wrap …): for the few files that meet Python objects.
  add_library(ff_torch_python INTERFACE)
  target_link_libraries(ff_torch_python INTERFACE ff_torch ${FF_TORCH_FOLDER}/lib/libtorch_python.so)

  add_library(ff_pybind11 INTERFACE)
  if(FF_PYBIND11_FOLDER)
    target_include_directories(ff_pybind11 SYSTEM INTERFACE ${FF_PYBIND11_FOLDER}/include)
  elseif(EXISTS ${FF_TORCH_FOLDER}/include/pybind11/pybind11.h)
    # torch ships the headers it was built with.
    target_include_directories(ff_pybind11 SYSTEM INTERFACE ${FF_TORCH_FOLDER}/include)
  endif()
  target_link_libraries(ff_pybind11 INTERFACE ff_python)
endif()

# ---- GoogleTest
if(FF_TESTS)
  find_path(FF_GTEST_INCLUDE gtest/gtest.h HINTS ${ff_prefixes} PATH_SUFFIXES include)
  foreach(name IN ITEMS gtest gmock gtest_main)
    find_library(FF_LIB_${name} NAMES ${name} HINTS ${ff_prefixes} PATH_SUFFIXES ${ff_lib_suffixes})
  endforeach()
  if(NOT FF_GTEST_INCLUDE OR NOT FF_LIB_gtest OR NOT FF_LIB_gmock)
    message(FATAL_ERROR "GoogleTest was not found: apt-get install libgtest-dev libgmock-dev, or configure with -DFF_TESTS=OFF")
  endif()
  find_package(Threads REQUIRED)
  # ff_gtest brings no main; programs that do not embed Python link ff_gtest_main too.
  add_library(ff_gtest INTERFACE)
  target_include_directories(ff_gtest SYSTEM INTERFACE ${FF_GTEST_INCLUDE})
  target_link_libraries(ff_gtest INTERFACE ${FF_LIB_gmock} ${FF_LIB_gtest} Threads::Threads)
  add_library(ff_gtest_main INTERFACE)
  target_link_libraries(ff_gtest_main INTERFACE ${FF_LIB_gtest_main} ff_gtest)
endif()
