// Wanted by c10d's ProcessGroupGloo.hpp, which uses nothing of it. See ../context.h.
#pragma once
