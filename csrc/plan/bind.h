// The Python face of plans: stoker.kernels._native.Plan and Step.
#pragma once
#include <nanobind/nanobind.h>

namespace stoker {

void bind_plan(nanobind::module_& m);

}  // namespace stoker
