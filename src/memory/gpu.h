// Registers the streams that may use GPU memory: a free waits for the work submitted to them.
#pragma once

#include "device/cuda.h"

namespace tern {

void serve_stream(int device, cuda::Stream* stream);
void forget_stream(int device, cuda::Stream* stream);

}  // namespace tern
