// framefuse::recurrent: a whole LSTM, GRU or RNN as one operator. Torch's own is a loop over the sequence, which a
// graph for sequences of any length cannot have. Its backward runs the network again, and asks autograd. Invariant: the
// results are eager's, by eager's kernels; what it gives is contiguous.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_RECURRENT_OPERATOR_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_RECURRENT_OPERATOR_H_

namespace framefuse {

// Once a process, before the first capture.
void RegisterRecurrentOperator();

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_RECURRENT_OPERATOR_H_
