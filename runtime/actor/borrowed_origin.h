// Reconstruction of lost objects that tasks of another process returned: that process runs its task again.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/store/object_store.h"

namespace volador {

// `owner`: Session::name_as_owner() of the task's submitter. Reconstructs one object, index 0.
std::shared_ptr<ObjectOrigin> borrow_origin(std::string_view owner, const ObjectKey& object);

}  // namespace volador
