// SPDX-License-Identifier: Apache-2.0
// aclmdlDataset: the data buffers of one execution, in the order of the model's inputs or outputs. It owns the copies
// of the tensor descs that were set, and neither the buffers nor their memory.
#include "mdl/objects.h"

using acl_cpu::alive;
using acl_cpu::Kind;
using acl_cpu::live_add;
using acl_cpu::mdl::guarded;

aclmdlDataset* aclmdlCreateDataset(void) {
  ACL_CPU_ENTRY_OR(aclmdlCreateDataset, nullptr);
  aclmdlDataset* dataset = new (std::nothrow) aclmdlDataset;
  if (dataset) live_add(Kind::kDataset, 1);
  return dataset;
}

aclError aclmdlDestroyDataset(const aclmdlDataset* dataset) {
  ACL_CPU_ENTRY(aclmdlDestroyDataset);
  ACL_CPU_REQUIRE(acl_cpu::end_handled(dataset), "expected a dataset that is not destroyed");
  live_add(Kind::kDataset, -1);
  return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* dataBuffer) {
  ACL_CPU_ENTRY(aclmdlAddDatasetBuffer);
  ACL_CPU_REQUIRE(alive(dataset) && alive(dataBuffer), "expected a dataset and a data buffer");
  return guarded([&]() -> aclError { return dataset->entries.push_back({dataBuffer, nullptr}), ACL_SUCCESS; });
}

aclError aclmdlSetDatasetTensorDesc(aclmdlDataset* dataset, aclTensorDesc* tensorDesc, size_t index) {
  ACL_CPU_ENTRY(aclmdlSetDatasetTensorDesc);
  ACL_CPU_REQUIRE(alive(dataset) && (!tensorDesc || alive(tensorDesc)), "expected a dataset and a desc or NULL");
  ACL_CPU_REQUIRE(index < dataset->entries.size(), "the index is past the last buffer");
  auto& desc = dataset->entries[index].desc;
  return guarded([&]() -> aclError {
    if (!tensorDesc) {
      desc.reset();
    } else if (!desc) {
      desc = std::make_unique<aclTensorDesc>(*tensorDesc);
    } else if (desc.get() != tensorDesc) {
      *desc = *tensorDesc;
    }
    if (desc) desc->owned = true;
    return ACL_SUCCESS;
  });
}

aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetDatasetTensorDesc, nullptr);
  return alive(dataset) && index < dataset->entries.size() ? dataset->entries[index].desc.get() : nullptr;
}

size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset* dataset) {
  ACL_CPU_ENTRY_OR(aclmdlGetDatasetNumBuffers, 0);
  return alive(dataset) ? dataset->entries.size() : 0;
}

aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetDatasetBuffer, nullptr);
  return alive(dataset) && index < dataset->entries.size() ? dataset->entries[index].buffer : nullptr;
}
