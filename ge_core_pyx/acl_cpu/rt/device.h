// SPDX-License-Identifier: Apache-2.0
// What device.cpp and context.cpp share: a device, and the life of its contexts.
#ifndef GE_CORE_ACL_CPU_RT_DEVICE_H
#define GE_CORE_ACL_CPU_RT_DEVICE_H

#include "internal.h"

namespace acl_cpu {

struct Device {
  int sets = 0;
  Context* primary = nullptr;
  std::vector<Context*> contexts;
  std::vector<int> peers;
  std::atomic<bool> lost{false};
};

extern std::mutex device_mutex;  // guards the devices and the life of contexts; never held while a stream is waited for
Device& device_of(int id);
aclError open_device(int id);  // checks the id; the first one joins the state that all processes share

// With device_mutex held:
Context* new_context(int id, bool primary);
std::vector<Context*> take_contexts(int id, bool all);  // out of the device: nobody finds them any more

// Ends contexts whose handles this thread has removed; then, if the device has none left, its memory.
void end_contexts(int id, const std::vector<Context*>& contexts, bool force);

}  // namespace acl_cpu

#endif
