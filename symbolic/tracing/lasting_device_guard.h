// LastingDeviceGuard: torch's FakeTensorMode needs a guard for CUDA devices, also where a CUDA build of torch finds
// none. torch makes one then that the thread which asked first owns, and all threads use it: it dangles once that
// thread has ended. Made here, it lasts as long as the process. Invariant: nothing changes where devices or a guard are
// there.
#ifndef FRAMEFUSE_SYMBOLIC_TRACING_LASTING_DEVICE_GUARD_H_
#define FRAMEFUSE_SYMBOLIC_TRACING_LASTING_DEVICE_GUARD_H_

namespace framefuse::tracing {

// Before a FakeTensorMode is entered.
void EnsureLastingDeviceGuard();

}  // namespace framefuse::tracing

#endif  // FRAMEFUSE_SYMBOLIC_TRACING_LASTING_DEVICE_GUARD_H_
