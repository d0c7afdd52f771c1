// The entry loop of the engine `root` and its helper functions; compiled by ROOT's interpreter, see root.py.
#include <TBranch.h>
#include <TFile.h>
#include <TLeaf.h>
#include <TTree.h>
#include <chrono>
#include <vector>
namespace storelab {
long long now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}
// Return the entries read, summed over branches; -1 - i if branch i fails, -1000000000 if the clock passes `latest`.
long long loop(TTree* tree, const std::vector<TBranch*>& branches, const std::vector<long long>& entries, long long latest) {
  long long done = 0;
  for (auto entry : entries) {
    if (now_ns() > latest) return -1000000000;
    const long long local = tree->LoadTree(entry);
    for (size_t i = 0; i < branches.size(); ++i, ++done)
      if (local < 0 || branches[i]->GetEntry(local) < 0) return -1 - static_cast<long long>(i);
  }
  return done;
}
// Return offset and size of the baskets of these branches, one after the other.
std::vector<long long> baskets(const std::vector<TBranch*>& branches) {
  std::vector<long long> out;
  for (auto branch : branches)
    for (int i = 0; i < branch->GetWriteBasket(); ++i) { out.push_back(branch->GetBasketSeek(i)); out.push_back(branch->GetBasketBytes()[i]); }
  return out;
}
// Return the values of these entries for a branch with one leaf, as they are in memory.
std::vector<unsigned char> values(TTree* tree, TBranch* branch, const std::vector<long long>& entries) {
  std::vector<unsigned char> out;
  auto leaf = static_cast<TLeaf*>(branch->GetListOfLeaves()->At(0));
  for (auto entry : entries) {
    branch->GetEntry(tree->LoadTree(entry));
    auto begin = static_cast<const unsigned char*>(leaf->GetValuePointer());
    out.insert(out.end(), begin, begin + static_cast<size_t>(leaf->GetLen()) * leaf->GetLenType());
  }
  return out;
}
// Return ranges of the file, ascending, one after the other.
std::vector<unsigned char> bytes(TFile* file, std::vector<long long> offsets, std::vector<int> sizes) {
  long long total = 0;
  for (auto size : sizes) total += size;
  std::vector<unsigned char> out(total);
  const auto failed = file->ReadBuffers(reinterpret_cast<char*>(out.data()), offsets.data(), sizes.data(), static_cast<int>(sizes.size()));
  if (failed) out.clear();
  return out;
}
}
