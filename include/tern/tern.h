// The whole public API.
#pragma once

#include "tern/checkpoint.h"
#include "tern/context.h"
#include "tern/device.h"
#include "tern/io.h"
#include "tern/layout.h"
#include "tern/linear.h"
#include "tern/memory.h"
#include "tern/metadata.h"
#include "tern/observer.h"
#include "tern/plan.h"
#include "tern/precision.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"
#include "tern/version.h"
