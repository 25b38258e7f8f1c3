#include "symbolic/attempt/call_trace.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/graph/graph.h"
#include "common/trace.h"
#include "guards/text.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {

void TraceSource(const std::string& file) {
  const std::string key = absl::StrCat("source ", file);
  if (!TraceWants(key)) return;
  JsonObject json;
  json.Text("file", file).Text("text", SourceText(file));
  WriteTraceOnce(key, "source", json);
}

std::string CallText(const FxNode& n) {
  switch (n.op) {
    case FxNode::Op::kCallMethod:
      return absl::StrCat("Tensor.", PlainText(n.target));
    case FxNode::Op::kGetAttr:
      return absl::StrCat("Tensor.", PlainText(n.target), " (attribute)");
    case FxNode::Op::kCallFunction:
    case FxNode::Op::kHostTensor:
      return DescribeCallable(n.target);
    case FxNode::Op::kBecomes:
      if (PyUnicode_Check(n.target.get())) return absl::StrCat("Tensor.", PlainText(n.target));
      return DescribeCallable(n.target);
  }
  return {};
}

std::string TraceCalls(const FxJournal& journal, const tracing::TracedGraph& graph) {
  std::vector<std::string> calls;
  for (const FxNode& n : journal.nodes()) {
    JsonObject json;
    json.Text("call", CallText(n));
    const bool known = graph.graph != nullptr && n.begin >= 0 && n.begin < static_cast<int>(graph.graph->nodes.size());
    const ir::OriginId id = known ? graph.graph->nodes[static_cast<std::size_t>(n.begin)].origin : -1;
    if (id >= 0) {
      const ir::Origin& origin = graph.graph->origins[static_cast<std::size_t>(id)];
      TraceSource(origin.file);
      json.Text("file", origin.file).Int("line", origin.line).Text("function", origin.function);
      json.Text("source", origin.source);
    }
    calls.push_back(json.Done());
  }
  return JsonList(calls);
}

}  // namespace framefuse
