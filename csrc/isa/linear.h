// One panel of a product: 16 columns of the outputs of all rows.
#pragma once
#include "kernels.h"

namespace stoker::STOKER_ISA {

void float_panel(const Product& a, const Part& part, int64_t number);
void int_panel(const Product& a, const Part& part, int64_t number);

}  // namespace stoker::STOKER_ISA
