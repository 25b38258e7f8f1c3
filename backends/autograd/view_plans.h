// View plans: how each result that is a view is made again from the real tensor that it is a view of.
// Invariant: they are made from the graph as captured; passes drop the nodes between a base and its view.
#ifndef FRAMEFUSE_BACKENDS_AUTOGRAD_VIEW_PLANS_H_
#define FRAMEFUSE_BACKENDS_AUTOGRAD_VIEW_PLANS_H_

#include <cstdint>
#include <vector>

#include "backends/graph/graph.h"
#include "backends/runtime/output_views.h"

namespace framefuse {

struct ViewPlan {
  ViewRecipe recipe;
  std::int32_t of_output = -1;  // another view that it was made from: what comes to it goes through that one
  bool is_written = false;      // by a node that was given the view itself, whose backward may read it
};

// By output of the graph.
std::vector<ViewPlan> PlanViews(const ir::Graph& g);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_AUTOGRAD_VIEW_PLANS_H_
