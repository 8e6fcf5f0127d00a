// The functions of HIP for streams and events: everything has already happened.
#include <algorithm>

#include "launch.h"

using namespace softhip;

extern "C" {

hipError_t hipStreamCreateWithPriority(hipStream_t *s, unsigned f, int p) {
  *s = (hipStream_t) new Stream{f, p};
  return hipSuccess;
}
hipError_t hipStreamCreateWithFlags(hipStream_t *s, unsigned f) { return hipStreamCreateWithPriority(s, f, 0); }
hipError_t hipStreamCreate(hipStream_t *s) { return hipStreamCreateWithPriority(s, 0, 0); }
hipError_t hipStreamDestroy(hipStream_t s) { delete (Stream *)s; return hipSuccess; }
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipStreamQuery(hipStream_t) { return hipSuccess; }
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned) { return hipSuccess; }
hipError_t hipStreamGetFlags(hipStream_t s, unsigned *f) { *f = s ? ((Stream *)s)->flags : 0; return hipSuccess; }
hipError_t hipStreamGetPriority(hipStream_t s, int *p) { *p = s ? ((Stream *)s)->priority : 0; return hipSuccess; }
hipError_t hipStreamGetDevice(hipStream_t, hipDevice_t *d) { *d = 0; return hipSuccess; }
hipError_t hipDeviceGetStreamPriorityRange(int *a, int *b) { *a = 0; *b = 0; return hipSuccess; }
hipError_t hipStreamIsCapturing(hipStream_t, hipStreamCaptureStatus *s) {
  *s = hipStreamCaptureStatusNone;
  return hipSuccess;
}
hipError_t hipStreamAddCallback(hipStream_t s, hipStreamCallback_t f, void *u, unsigned) {
  f(s, hipSuccess, u);
  return hipSuccess;
}
hipError_t hipLaunchHostFunc(hipStream_t, hipHostFn_t f, void *u) { f(u); return hipSuccess; }
hipError_t hipEventCreateWithFlags(hipEvent_t *e, unsigned) { *e = (hipEvent_t) new Event; return hipSuccess; }
hipError_t hipEventCreate(hipEvent_t *e) { return hipEventCreateWithFlags(e, 0); }
hipError_t hipEventDestroy(hipEvent_t e) { delete (Event *)e; return hipSuccess; }
hipError_t hipEventRecord(hipEvent_t e, hipStream_t) { record(e); return hipSuccess; }
hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
hipError_t hipEventQuery(hipEvent_t) { return hipSuccess; }
hipError_t hipEventElapsedTime(float *ms, hipEvent_t a, hipEvent_t b) {
  auto *x = (Event *)a, *y = (Event *)b;
  if (!x || !y || !x->recorded || !y->recorded) return set(hipErrorInvalidHandle);
  *ms = std::max(1e-3f, std::chrono::duration<float, std::milli>(y->at - x->at).count());
  return hipSuccess;
}

}  // extern "C"
