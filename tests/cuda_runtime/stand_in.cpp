// What the runtime calls of libcuda, libnvrtc and libnvJitLink, without a GPU: "cubins" say who made them. Built once
// for each of the three, whose names it bears.
#include <cstddef>
#include <cstring>

using Result = int;
using Handle = void*;

extern "C" {

__attribute__((visibility("default"))) int stand_in_made = 0;     // cubins
__attribute__((visibility("default"))) int stand_in_refuses = 0;  // all that it is given; libcuda: cubins of PTX

#define FF_STAND_IN __attribute__((visibility("default"))) Result

// --- libcuda

FF_STAND_IN cuInit(unsigned) { return 0; }
FF_STAND_IN cuGetErrorString(Result, const char** text) {
  *text = "refused";
  return 0;
}
FF_STAND_IN cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
FF_STAND_IN cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;  // the version, major and minor
  return 0;
}
FF_STAND_IN cuDevicePrimaryCtxRetain(Handle* context, int) {
  *context = &stand_in_made;
  return 0;
}
FF_STAND_IN cuCtxGetCurrent(Handle* context) {
  *context = &stand_in_made;
  return 0;
}
FF_STAND_IN cuCtxPushCurrent_v2(Handle) { return 0; }
FF_STAND_IN cuCtxPopCurrent_v2(Handle*) { return 0; }
FF_STAND_IN cuModuleLoadData(Handle* module, const void* cubin) {
  *module = &stand_in_made;
  return stand_in_refuses != 0 && std::strcmp(static_cast<const char*>(cubin), "of PTX") == 0 ? 200 : 0;
}
FF_STAND_IN cuModuleUnload(Handle) { return 0; }
FF_STAND_IN cuModuleGetFunction(Handle* function, Handle, const char*) {
  *function = &stand_in_made;
  return 0;
}
FF_STAND_IN cuStreamIsCapturing(Handle, int* status) {
  *status = 0;
  return 0;
}
FF_STAND_IN cuLaunchKernel() { return 1; }

// --- libnvrtc

FF_STAND_IN nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
FF_STAND_IN nvrtcCreateProgram(Handle*, const char*, const char*, int, const char* const*, const char* const*) {
  return 0;
}
FF_STAND_IN nvrtcCompileProgram(Handle, int, const char* const*) {
  if (stand_in_refuses != 0) return 6;
  ++stand_in_made;
  return 0;
}
FF_STAND_IN nvrtcGetProgramLogSize(Handle, std::size_t* size) {
  *size = 0;
  return 0;
}
FF_STAND_IN nvrtcGetProgramLog(Handle, char*) { return 0; }
FF_STAND_IN nvrtcGetCUBINSize(Handle, std::size_t* size) {
  *size = sizeof "of CUDA";
  return 0;
}
FF_STAND_IN nvrtcGetCUBIN(Handle, char* to) {
  std::strcpy(to, "of CUDA");
  return 0;
}
FF_STAND_IN nvrtcDestroyProgram(Handle*) { return 0; }
__attribute__((visibility("default"))) const char* nvrtcGetErrorString(Result) { return "refused"; }

// --- libnvJitLink

FF_STAND_IN nvJitLinkVersion(unsigned* major, unsigned* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
FF_STAND_IN nvJitLinkCreate(Handle*, unsigned, const char**) { return 0; }
FF_STAND_IN nvJitLinkAddData(Handle, int, const void*, std::size_t, const char*) {
  return stand_in_refuses != 0 ? 4 : 0;
}
FF_STAND_IN nvJitLinkComplete(Handle) {
  ++stand_in_made;
  return 0;
}
FF_STAND_IN nvJitLinkGetErrorLogSize(Handle, std::size_t* size) {
  *size = sizeof "its log";
  return 0;
}
FF_STAND_IN nvJitLinkGetErrorLog(Handle, char* to) {
  std::strcpy(to, "its log");
  return 0;
}
FF_STAND_IN nvJitLinkGetLinkedCubinSize(Handle, std::size_t* size) {
  *size = sizeof "of PTX";
  return 0;
}
FF_STAND_IN nvJitLinkGetLinkedCubin(Handle, void* to) {
  std::strcpy(static_cast<char*>(to), "of PTX");
  return 0;
}
FF_STAND_IN nvJitLinkDestroy(Handle*) { return 0; }

}  // extern "C"
