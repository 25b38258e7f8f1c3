// IndexedVector: a vector that is indexed by ids of one kind: values of a graph, nodes, sources. Ids are signed, so
// that there can be none of them. Invariant: an id that is looked up is not negative and one of the vector's; a debug
// build checks it.
#ifndef FRAMEFUSE_COMMON_INDEXED_VECTOR_H_
#define FRAMEFUSE_COMMON_INDEXED_VECTOR_H_

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "common/check.h"

namespace framefuse {

template <std::signed_integral Id, typename T>
class IndexedVector {
 public:
  using Items = std::vector<T>;
  using value_type = T;

  IndexedVector() = default;
  explicit IndexedVector(std::size_t size) : items_(size) {}
  IndexedVector(std::size_t size, const T& value) : items_(size, value) {}
  IndexedVector(std::initializer_list<T> items) : items_(items) {}
  explicit IndexedVector(Items items) : items_(std::move(items)) {}

  // By an id, or by the position of a loop over all.
  template <std::integral I>
  requires(std::same_as<I, Id> || std::same_as<I, std::size_t>) typename Items::reference operator[](I id) {
    FF_DCHECK(Has(id));
    return items_[static_cast<std::size_t>(id)];
  }
  template <std::integral I>
  requires(std::same_as<I, Id> || std::same_as<I, std::size_t>) typename Items::const_reference operator[](I id) const {
    FF_DCHECK(Has(id));
    return items_[static_cast<std::size_t>(id)];
  }
  // Whether the id is one of the vector's; none is.
  template <std::integral I>
  requires(std::same_as<I, Id> || std::same_as<I, std::size_t>) bool Has(I id) const {
    return static_cast<std::size_t>(id) < items_.size();  // a negative one is larger than any size
  }
  Id end_id() const { return static_cast<Id>(items_.size()); }  // of the next one that is added

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  typename Items::reference back() { return items_.back(); }

  void push_back(T item) { items_.push_back(std::move(item)); }
  template <typename... Arguments>
  decltype(auto) emplace_back(Arguments&&... arguments) {
    return items_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  void assign(std::size_t size, const T& value) { items_.assign(size, value); }
  void resize(std::size_t size) { items_.resize(size); }
  void resize(std::size_t size, const T& value) { items_.resize(size, value); }
  void clear() { items_.clear(); }
  const Items& items() const { return items_; }

  friend bool operator==(const IndexedVector&, const IndexedVector&) = default;

 private:
  Items items_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_COMMON_INDEXED_VECTOR_H_
