// The table of this instruction set's functions.
#include "isa/ops.h"

namespace stoker::STOKER_ISA {

const KernelTable table = {embed,    linear,         prepare,   product, gated,
                           rms_norm, rope_and_store, attention, glu,     add,
                           take_rows, block_maxima,  masses};

}  // namespace stoker::STOKER_ISA
