// Streams whose work memory of a GPU may serve: a block that is freed waits for what lies on them.
#pragma once

#include "device/cuda.h"

namespace tern {

void serve_stream(int device, cuda::Stream* stream);
void forget_stream(int device, cuda::Stream* stream);

}  // namespace tern
