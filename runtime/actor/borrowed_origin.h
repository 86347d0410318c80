// Objects that tasks of another process brought: where one is lost, that process is asked to run its task again.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/store/object_store.h"

namespace volador {

// `owner`: Session::name_as_owner() of who submitted the task. It makes one object again, index 0.
std::shared_ptr<ObjectOrigin> borrow_origin(std::string_view owner, const ObjectKey& object);

}  // namespace volador
