// Which CPU a thread runs on.
#pragma once

namespace stoker {

// Bind the calling thread to one logical CPU. A hint: where the system refuses or has no such call,
// the thread stays where the scheduler puts it.
void pin_to(int cpu);

}  // namespace stoker
