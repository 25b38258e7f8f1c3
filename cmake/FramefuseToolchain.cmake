# Compiler, linker and flags. Defines the interface target ff_options, which every library of ours links.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -g1 keeps line tables (backtraces, gdb) and leaves out what makes Torch-heavy objects ten times larger.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_SKIP_BUILD_RPATH ${FF_WHEEL})

find_program(FF_CCACHE ccache)
if(FF_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # pch_defines and time_macros are what ccache needs in order to cache files that use a precompiled header.
  set(ff_launcher ${CMAKE_COMMAND} -E env "CCACHE_SLOPPINESS=pch_defines,time_macros" ${FF_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ff_launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${ff_launcher})
endif()

find_program(FF_MOLD mold)
if(FF_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(FF_SANITIZE)
  add_compile_options(-fsanitize=${FF_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FF_SANITIZE})
  set(ff_sanitizer_warnings -Wno-maybe-uninitialized)  # instrumented code hides from GCC that a variant was set
endif()

# At -O3 GCC 13 takes the std::vector<bool> in torch's Function::apply for written behind its end.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  set(ff_compiler_warnings -Wno-array-bounds)
endif()

add_library(ff_options INTERFACE)
target_compile_features(ff_options INTERFACE cxx_std_20)
target_compile_options(ff_options INTERFACE -Wall -Wextra -Werror ${ff_sanitizer_warnings} ${ff_compiler_warnings} -fPIC -fvisibility=hidden
                       $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
target_include_directories(ff_options INTERFACE ${CMAKE_SOURCE_DIR})

# A compiler that brings only libstdc++.a would put a second copy of it beside the one that torch uses, with locale
# facets that know nothing of each other. The system's shared one goes first then; the archive fills in what it lacks.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so
  OUTPUT_VARIABLE ff_stdcxx OUTPUT_STRIP_TRAILING_WHITESPACE)
file(GLOB ff_system_stdcxx /usr/lib/*-linux-gnu/libstdc++.so.6 /usr/lib64/libstdc++.so.6)
message(STATUS "libstdc++: ${ff_stdcxx}; the system's: ${ff_system_stdcxx}")
# Torch's libraries export parts of a copy of their own (std::filesystem), made for another version. So the shared one
# stands before them, and symbols are found there.
set(ff_first_stdcxx -lstdc++)
if(ff_system_stdcxx)
  list(GET ff_system_stdcxx 0 ff_system_stdcxx)
  if(NOT IS_ABSOLUTE "${ff_stdcxx}")
    set(ff_first_stdcxx ${ff_system_stdcxx})
  endif()
endif()
target_link_options(ff_options INTERFACE LINKER:--push-state,--no-as-needed ${ff_first_stdcxx} LINKER:--pop-state)
