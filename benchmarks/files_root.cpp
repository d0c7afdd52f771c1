// ROOT files of every kind, for files.py; compiled by ROOT's interpreter, see files_root.py. Entry i is filled by formulas of i.
#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <TBits.h>
#include <TClonesArray.h>
#include <TFile.h>
#include <TFriendElement.h>
#include <ROOT/TIOFeatures.hxx>
#include <TLorentzVector.h>
#include <TNtuple.h>
#include <TNtupleD.h>
#include <TObjString.h>
#include <TRef.h>
#include <TTree.h>
#include <TVector3.h>
#include <array>
#include <atomic>
#include <bitset>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace made {
const int step = 40;  // entries of a basket or cluster

struct Out {
  TFile file;
  TTree tree;
  Out(const char* path, int codec) : file(path, "RECREATE", "", codec), tree("events", "") { tree.SetAutoFlush(step); }
  ~Out() { file.cd(); tree.Write(); tree.ResetBranchAddresses(); tree.SetDirectory(nullptr); file.Close(); }
};

template <typename T> void fill(std::vector<T>& v, int i, int most = 4) { v.clear(); for (int k = 0; k < i % most; k++) v.push_back(static_cast<T>(k + i)); }

void vectors(const char* path, int n, int codec) {
  std::vector<float> f; std::vector<int> i4; std::vector<double> d; std::vector<std::vector<float>> vv; std::vector<std::string> vs; std::vector<bool> vb; std::string text;
  Out out(path, codec); auto& t = out.tree;
  t.Branch("v_float", &f); t.Branch("v_int", &i4); t.Branch("v_double", &d); t.Branch("vv_float", &vv); t.Branch("v_text", &vs); t.Branch("v_bool", &vb); t.Branch("text", &text);
  for (int i = 0; i < n; i++) {
    fill(f, i); fill(i4, i); fill(d, i); vv.clear(); vs.clear(); vb.clear(); text = std::string(i % 5, 'x');
    for (int k = 0; k < i % 3; k++) { vv.push_back(std::vector<float>(k, .5f * k)); vs.push_back("k" + std::to_string(k)); vb.push_back(k % 2); }
    t.Fill();
  }
}
void arrays(const char* path, int n, int codec) {
  Int_t count; Float_t pt[8], cov[8][3], three[3]; UChar_t id[8]; Bool_t flag, flags[8]; Short_t two[2][2]; Long64_t l; ULong64_t u; char word[32]; Char_t c; Double_t weight;
  Out out(path, codec); auto& t = out.tree;
  t.Branch("n", &count, "n/I"); t.Branch("pt", pt, "pt[n]/F"); t.Branch("cov", cov, "cov[n][3]/F"); t.Branch("id", id, "id[n]/b"); t.Branch("three", three, "three[3]/F");
  t.Branch("flag", &flag, "flag/O"); t.Branch("flags", flags, "flags[n]/O"); t.Branch("two", two, "two[2][2]/S"); t.Branch("l", &l, "l/L"); t.Branch("u", &u, "u/l");
  t.Branch("word", word, "word/C"); t.Branch("c", &c, "c/B"); t.Branch("weight", &weight, "weight/D");
  for (int i = 0; i < n; i++) {
    count = i % 4; flag = i % 3 == 0; l = -1000000000000ll * i; u = 1000000000000ull * i; c = i; weight = .1 * i; snprintf(word, 32, "word %d", i);
    for (int k = 0; k < 3; k++) three[k] = i + k;
    for (int k = 0; k < 4; k++) { two[k / 2][k % 2] = i - k; pt[k] = k + i; id[k] = k + i; flags[k] = k % 2; for (int j = 0; j < 3; j++) cov[k][j] = k * j; }
    t.Fill();
  }
}
template <typename T> void objects_of(TTree& t, const char* name, T& object, int split) { t.Branch(name, &object, 32000, split); }
void object_tree(const char* path, int n, int codec, int split) {
  TLorentzVector p; TVector3 v; TObjString s; TNamed named; auto* pp = &p; auto* pv = &v; auto* ps = &s; auto* pn = &named;
  Out out(path, codec); auto& t = out.tree;
  t.Branch("p4", &pp, 32000, split); t.Branch("p3", &pv, 32000, split); t.Branch("word", &ps, 32000, split); t.Branch("named", &pn, 32000, split);
  for (int i = 0; i < n; i++) { p.SetPxPyPzE(i, 2 * i, 3 * i, 4 * i); v.SetXYZ(i, -i, 0); s.SetString(Form("word %d", i)); named.SetNameTitle(Form("n%d", i), "title"); t.Fill(); }
}
void objects(const char* path, int n, int codec) { object_tree(path, n, codec, 99); }
void unsplit(const char* path, int n, int codec) { object_tree(path, n, codec, 0); }
void clone_tree(const char* path, int n, int codec, bool referred) {
  auto *split = new TClonesArray("TLorentzVector", 10), *whole = new TClonesArray("TVector3", 10); TRef reference;
  Out out(path, codec); auto& t = out.tree; t.Branch("Jet", &split, 32000, 99); t.Branch("Track", &whole, 32000, 99); t.Branch("Whole", &whole, 32000, 0);
  for (int i = 0; i < n; i++) {
    split->Clear("C"); whole->Clear("C");
    for (int k = 0; k < i % 3; k++) {
      auto jet = new ((*split)[k]) TLorentzVector(i, k, 0, 1); if (referred && i % 2) reference = jet;
      new ((*whole)[k]) TVector3(i, k, 0);
    }
    t.Fill();
  }
}
void clones(const char* path, int n, int codec) { clone_tree(path, n, codec, false); }
void references(const char* path, int n, int codec) { clone_tree(path, n, codec, true); }
void texts(const char* path, int n, int codec) {
  std::string s; TString* ts = new TString; char c[600]; std::vector<TString> vt;
  Out out(path, codec); auto& t = out.tree; t.Branch("s", &s); t.Branch("ts", &ts); t.Branch("c", c, "c/C"); t.Branch("vt", &vt);
  for (int i = 0; i < n; i++) { s = std::string(10 * i, 's'); *ts = Form("t%d", i); snprintf(c, 600, "%s", std::string(i * 4, 'c').c_str()); vt.assign(i % 3, "v"); t.Fill(); }
}
void doubles(const char* path, int n, int codec) {
  Double_t x, y, z; Float_t f, g; Double_t list[8]; Int_t count;
  Out out(path, codec); auto& t = out.tree;
  t.Branch("x", &x, "x/d"); t.Branch("y", &y, "y/d[0,100,16]"); t.Branch("z", &z, "z/d[0,0,12]"); t.Branch("f", &f, "f/f"); t.Branch("g", &g, "g/f[0,100,10]");
  t.Branch("count", &count, "count/I"); t.Branch("list", list, "list[count]/d[0,100,16]");
  for (int i = 0; i < n; i++) { x = y = z = f = g = .5 * i; count = i % 4; for (int k = 0; k < 4; k++) list[k] = k; t.Fill(); }
}
void packed(const char* path, int n, int codec) {  // every form of Float16_t and Double32_t; whole numbers are on the grid of [-128,128,16]
  Int_t count; Double_t d, da[3], dm[2][3], dl[4], dlm[4][2], db[3], dbl[4], dw; Float_t h, hb, ha[3], hl[4], hr[3], hm[4][2][3], h9; struct { Double_t a, b[2][2][2]; } s;
  Out out(path, codec); auto& t = out.tree; t.Branch("count", &count, "count/I");
  t.Branch("d", &d, "d/d[-128,128,16]"); t.Branch("da", da, "da[3]/d[-128,128,16]"); t.Branch("dm", dm, "dm[2][3]/d[-128,128,16]"); t.Branch("dl", dl, "dl[count]/d[-128,128,16]");
  t.Branch("dlm", dlm, "dlm[count][2]/d[-128,128,16]"); t.Branch("db", db, "db[3]/d[0,0,12]"); t.Branch("dbl", dbl, "dbl[count]/d[0,0,16]"); t.Branch("dw", &dw, "dw/d[-128,128]");
  t.Branch("h", &h, "h/f[0,0,16]"); t.Branch("hb", &hb, "hb/f[0,0,14]"); t.Branch("ha", ha, "ha[3]/f"); t.Branch("hl", hl, "hl[count]/f"); t.Branch("hr", hr, "hr[3]/f[-128,128,10]"); t.Branch("hm", hm, "hm[count][2][3]/f[-128,128,16]");
  t.Branch("h9", &h9, "h9/f[0,0,9]"); t.Branch("s", &s, "a/D:b[2][2][2]/D");
  for (int i = 0; i < n; i++) {
    double x = i % 2 ? -i : i; count = i % 4; d = dw = h = hb = h9 = s.a = x; da[0] = da[1] = da[2] = db[0] = db[1] = db[2] = ha[0] = ha[1] = ha[2] = hr[0] = hr[1] = hr[2] = x;
    for (int k = 0; k < 6; k++) (&dm[0][0])[k] = x;
    for (int k = 0; k < 4; k++) dl[k] = dbl[k] = hl[k] = dlm[k][0] = dlm[k][1] = x;
    for (int k = 0; k < 24; k++) (&hm[0][0][0])[k] = x;
    for (int k = 0; k < 8; k++) (&s.b[0][0][0])[k] = x;
    t.Fill();
  }
}
void doubled(const char* path, int n, int codec) {
  Double_t x; Int_t y; std::vector<float> v; std::string s; TVector3 a, b; auto *pa = &a, *pb = &b;
  Out out(path, codec); auto& t = out.tree; t.Branch("x", &x, "x/D"); t.Branch("x", &y, "x/I"); t.Branch("v", &v); t.Branch("v", &s); t.Branch("p", &pa, 32000, 99); t.Branch("p", &pb, 32000, 99);
  for (int i = 0; i < n; i++) { x = i; y = -i; fill(v, i); s = std::string(i % 3, 's'); a.SetXYZ(i, 0, 0); b.SetXYZ(-i, 0, 0); t.Fill(); }
}
void embedded(const char* path, int n, int codec) {  // the last baskets stay in the tree's header
  TFile f(path, "RECREATE", "", codec); TTree t("events", ""); t.SetAutoFlush(0); t.SetAutoSave(0);
  Double_t x; Int_t count; Float_t list[8]; std::vector<float> v; std::string s;
  t.Branch("x", &x, "x/D", 300); t.Branch("count", &count, "count/I"); t.Branch("list", list, "list[count]/F"); t.Branch("v", &v); t.Branch("s", &s);
  for (int i = 0; i < n; i++) { x = i; count = i % 4; for (int k = 0; k < 4; k++) list[k] = k; fill(v, i); s = std::string(i % 3, 's'); t.Fill(); }
  f.WriteTObject(&t); t.ResetBranchAddresses(); t.SetDirectory(nullptr); f.Close();
}
void bits(const char* path, int n, int codec) {
  std::bitset<12> b; std::vector<bool> vb; TBits* tb = new TBits(20); UInt_t word; std::vector<std::bitset<8>> vbs;
  Out out(path, codec); auto& t = out.tree; t.Branch("b", &b); t.Branch("vb", &vb); t.Branch("tb", &tb); t.Branch("word", &word, "word/i");
  for (int i = 0; i < n; i++) { b = std::bitset<12>(i); vb.assign(i % 10, i % 2); tb->ResetAllBits(); tb->SetBitNumber(i % 20); word = 1u << (i % 32); t.Fill(); }
}
void tuples(const char* path, int n, int codec) { TFile f(path, "RECREATE", "", codec); TNtuple t("nt", "", "a:b:c"); for (int i = 0; i < n; i++) t.Fill(i, 2 * i, -i); t.Write(); }
void tuplesd(const char* path, int n, int codec) { TFile f(path, "RECREATE", "", codec); TNtupleD t("nd", "", "a:b"); for (int i = 0; i < n; i++) t.Fill(i, .1 * i); t.Write(); }
void friends(const char* path, int n, int codec) {
  Double_t x, y; TFile f(path, "RECREATE", "", codec); TTree other("other", ""), t("events", ""); other.Branch("y", &y, "y/D"); t.Branch("x", &x, "x/D");
  for (int i = 0; i < n; i++) { x = i; y = -i; t.Fill(); other.Fill(); }
  other.Write(); t.AddFriend(&other); t.SetAlias("z", "x+y"); t.BuildIndex("x"); t.GetUserInfo()->Add(new TNamed("a", "b")); t.Write();
  t.ResetBranchAddresses(); other.ResetBranchAddresses();
}
void partly(const char* path, int n, int codec) {  // one branch is not filled to the end, one not at all
  Double_t x = 0, y = 0, z = 0; Out out(path, codec); auto& t = out.tree; auto *a = t.Branch("x", &x, "x/D"), *b = t.Branch("y", &y, "y/D"); t.Branch("z", &z, "z/D");
  for (int i = 0; i < n; i++) { x = i; a->Fill(); if (i < n / 2) b->Fill(); }
  t.SetEntries(n);
}
void offsetmap(const char* path, int n, int codec) {
  Int_t count; Float_t list[8]; Out out(path, codec); auto& t = out.tree; ROOT::TIOFeatures features; features.Set(ROOT::Experimental::EIOFeatures::kGenerateOffsetMap); t.SetIOFeatures(features);
  t.Branch("count", &count, "count/I"); t.Branch("list", list, "list[count]/F");
  for (int i = 0; i < n; i++) { count = i % 4; for (int k = 0; k < 4; k++) list[k] = i; t.Fill(); }
}
void empty(const char* path, int, int codec) { Int_t x; std::vector<float> v; Out out(path, codec); out.tree.Branch("x", &x); out.tree.Branch("v", &v); }
void nobranch(const char* path, int, int codec) { Out out(path, codec); }
void empties(const char* path, int n, int codec) {  // flushed more often than filled
  Double_t x; std::vector<float> v; Out out(path, codec); auto& t = out.tree; t.Branch("x", &x, "x/D"); t.Branch("v", &v);
  for (int i = 0; i < n; i++) { x = i; fill(v, i, 2); t.Fill(); if (i % 7 == 0) { t.FlushBaskets(); t.FlushBaskets(); } }
}
void many(const char* path, int n, int codec) {
  Double_t x; std::vector<float> v; Out out(path, codec); auto& t = out.tree; t.SetAutoFlush(1); t.Branch("x", &x, "x/D"); t.Branch("v", &v);
  for (int i = 0; i < n; i++) { x = i; fill(v, i); t.Fill(); }
}
void leaflist(const char* path, int n, int codec) {
  struct { Int_t a; Float_t b; Double_t c; } s; struct { Float_t x[3]; Int_t y; } r; Out out(path, codec); auto& t = out.tree; t.Branch("s", &s, "a/I:b/F:c/D"); t.Branch("r", &r, "x[3]/F:y/I");
  for (int i = 0; i < n; i++) { s.a = i; s.b = .5 * i; s.c = -i; r.x[0] = r.x[1] = r.x[2] = i; r.y = i; t.Fill(); }
}
void maps(const char* path, int n, int codec) {
  std::map<int, float> m; std::map<std::string, std::vector<int>> ms; std::set<int> set; std::vector<std::pair<int, float>> vp; std::vector<TVector3> v3;
  Out out(path, codec); auto& t = out.tree; t.Branch("m", &m); t.Branch("ms", &ms); t.Branch("set", &set); t.Branch("v3", &v3);
  for (int i = 0; i < n; i++) { m.clear(); ms.clear(); set.clear(); v3.clear(); for (int k = 0; k < i % 3; k++) { m[k] = i; ms["k" + std::to_string(k)] = {i, k}; set.insert(k); v3.push_back(TVector3(i, k, 0)); } t.Fill(); }
}

using Model = ROOT::RNTupleModel;
using Writer = ROOT::RNTupleWriter;
ROOT::RNTupleWriteOptions options(int codec) { ROOT::RNTupleWriteOptions o; o.SetCompression(codec); return o; }

void ntuple(const char* path, int n, int codec) {
  auto m = Model::Create(); auto x = m->MakeField<float>("x"); auto v = m->MakeField<std::vector<float>>("v"); auto vv = m->MakeField<std::vector<std::vector<int>>>("vv"); auto b = m->MakeField<bool>("b");
  auto s = m->MakeField<std::string>("s"); auto d = m->MakeField<double>("d"); auto u = m->MakeField<std::uint64_t>("u");
  auto writer = Writer::Recreate(std::move(m), "events", path, options(codec));
  for (int i = 0; i < n; i++) {
    *x = i; fill(*v, i); vv->clear(); for (int k = 0; k < i % 3; k++) vv->push_back(std::vector<int>(k, k)); *b = i % 3 == 0; *s = std::string(i % 4, 's'); *d = .1 * i; *u = i;
    writer->Fill(); if (i % step == step - 1) writer->CommitCluster();
  }
}
void kinds(const char* path, int n, int codec) {
  auto m = Model::Create();
  auto b = m->MakeField<bool>("b"); auto c = m->MakeField<char>("c"); auto byte = m->MakeField<std::byte>("byte"); auto i8 = m->MakeField<std::int8_t>("i8"); auto u8 = m->MakeField<std::uint8_t>("u8");
  auto i16 = m->MakeField<std::int16_t>("i16"); auto u16 = m->MakeField<std::uint16_t>("u16"); auto i32 = m->MakeField<std::int32_t>("i32"); auto u32 = m->MakeField<std::uint32_t>("u32");
  auto i64 = m->MakeField<std::int64_t>("i64"); auto u64 = m->MakeField<std::uint64_t>("u64"); auto f = m->MakeField<float>("f"); auto d = m->MakeField<double>("d"); auto d32 = m->MakeField<Double32_t>("d32");
  auto s = m->MakeField<std::string>("s"); auto v = m->MakeField<std::vector<float>>("v"); auto vb = m->MakeField<std::vector<bool>>("vb"); auto vs = m->MakeField<std::vector<std::string>>("vs");
  auto a = m->MakeField<std::array<float, 3>>("a"); auto aa = m->MakeField<std::array<std::vector<int>, 2>>("aa"); auto p = m->MakeField<std::pair<int, float>>("p"); auto t = m->MakeField<std::tuple<int, std::string>>("t");
  auto o = m->MakeField<std::optional<float>>("o"); auto up = m->MakeField<std::unique_ptr<int>>("up");
  auto bits = m->MakeField<std::bitset<13>>("bits"); auto at = m->MakeField<std::atomic<int>>("at"); auto v3 = m->MakeField<std::vector<std::vector<std::vector<double>>>>("v3");
  auto writer = Writer::Recreate(std::move(m), "events", path, options(codec));
  for (int i = 0; i < n; i++) {
    *b = i % 3 == 0; *c = 'a' + i % 26; *byte = std::byte(i); *i8 = -i; *u8 = i; *i16 = -i; *u16 = i; *i32 = -1000 * i; *u32 = 1000 * i; *i64 = -i; *u64 = i; *f = .5 * i; *d = .1 * i; *d32 = i;
    *s = std::string(i % 4, 's'); fill(*v, i); vb->assign(i % 10, i % 2); vs->assign(i % 3, "k"); *a = {1.f * i, 2.f, 3.f}; (*aa)[0].assign(i % 3, i); (*aa)[1].assign(i % 2, -i); *p = {i, .5f * i}; *t = {i, "t"};
    if (i % 2) *o = i; else o->reset();
    if (i % 3) *up = std::make_unique<int>(i); else up->reset();
    *bits = std::bitset<13>(i); *at = i; v3->assign(i % 2, {{1., 2.}, {}});
    writer->Fill(); if (i % step == step - 1) writer->CommitCluster();
  }
}
void deferred(const char* path, int n, int codec) {  // fields that come late: what was written before has no pages of them
  auto m = Model::Create(); auto x = m->MakeField<float>("x"); auto writer = Writer::Recreate(std::move(m), "events", path, options(codec));
  std::shared_ptr<float> late; std::shared_ptr<std::vector<float>> list;
  for (int i = 0; i < n; i++) {
    if (i == 40) { auto u = writer->CreateModelUpdater(); u->BeginUpdate(); late = u->MakeField<float>("late"); u->CommitUpdate(); }
    if (i == 80) { auto u = writer->CreateModelUpdater(); u->BeginUpdate(); list = u->MakeField<std::vector<float>>("late_list"); u->CommitUpdate(); }
    *x = i; if (late) *late = i; if (list) fill(*list, i);
    writer->Fill(); if (i % step == step - 1) writer->CommitCluster();
  }
}
void projected(const char* path, int n, int codec) {
  auto m = Model::Create(); auto x = m->MakeField<float>("x"); auto pt = m->MakeField<std::vector<float>>("pt");
  m->AddProjectedField(ROOT::RFieldBase::Create("x_again", "float").Unwrap(), [](const std::string&) { return "x"; });
  m->AddProjectedField(ROOT::RFieldBase::Create("alias", "std::vector<float>").Unwrap(), [](const std::string& name) { return name == "alias" ? "pt" : "pt._0"; });
  m->AddProjectedField(ROOT::RFieldBase::Create("count", "ROOT::RNTupleCardinality<std::uint32_t>").Unwrap(), [](const std::string&) { return "pt"; });
  auto writer = Writer::Recreate(std::move(m), "events", path, options(codec));
  for (int i = 0; i < n; i++) { *x = i; fill(*pt, i); writer->Fill(); if (i % step == step - 1) writer->CommitCluster(); }
}
void simple(const char* path, int n, const ROOT::RNTupleWriteOptions& o, int every, bool groups) {
  auto m = Model::Create(); auto x = m->MakeField<double>("x"); auto v = m->MakeField<std::vector<float>>("v"); auto s = m->MakeField<std::string>("s");
  auto writer = Writer::Recreate(std::move(m), "events", path, o);
  for (int i = 0; i < n; i++) { *x = i; fill(*v, i); *s = std::string(i % 4, 's'); writer->Fill(); if (i % every == every - 1) writer->CommitCluster(groups && i % (3 * every) == 0); }
}
void clusters(const char* path, int n, int codec) { auto o = options(codec); o.SetInitialUnzippedPageSize(16); o.SetMaxUnzippedPageSize(64); simple(path, n, o, 5, true); }
void nosums(const char* path, int n, int codec) { auto o = options(codec); o.SetEnableSamePageMerging(false); o.SetEnablePageChecksums(false); simple(path, n, o, step, false); }
void unpacked(const char* path, int n, int) { simple(path, n, options(0), step, false); }
void quantised(const char* path, int n, int codec) {
  auto m = Model::Create(); auto x = m->MakeField<double>("x");
  auto t = std::make_unique<ROOT::RField<float>>("truncated"); t->SetTruncated(20); m->AddField(std::move(t));
  auto q = std::make_unique<ROOT::RField<float>>("quantised"); q->SetQuantized(0, 100, 12); m->AddField(std::move(q));
  auto h = std::make_unique<ROOT::RField<float>>("half"); h->SetHalfPrecision(); m->AddField(std::move(h));
  auto d = std::make_unique<ROOT::RField<double>>("double"); d->SetQuantized(0, 100, 20); m->AddField(std::move(d));
  auto writer = Writer::Recreate(std::move(m), "events", path, options(codec)); auto& e = writer->GetModel().GetDefaultEntry();
  auto pt = e.GetPtr<float>("truncated"), pq = e.GetPtr<float>("quantised"), ph = e.GetPtr<float>("half"); auto pd = e.GetPtr<double>("double");
  for (int i = 0; i < n; i++) { *x = i; *pt = *pq = *ph = *pd = .5 * i; writer->Fill(); if (i % step == step - 1) writer->CommitCluster(); }
}
void variants(const char* path, int n, int codec) {
  auto m = Model::Create(); auto v = m->MakeField<std::variant<int, float, std::string>>("v"); auto vv = m->MakeField<std::vector<std::variant<int, std::string>>>("vv"); auto vo = m->MakeField<std::vector<std::optional<float>>>("vo");
  auto writer = Writer::Recreate(std::move(m), "events", path, options(codec));
  for (int i = 0; i < n; i++) {
    if (i % 3 == 0) *v = i; else if (i % 3 == 1) *v = .5f * i; else *v = std::string("v");
    vv->clear(); vo->clear(); for (int k = 0; k < i % 3; k++) { if (k % 2) vv->push_back(std::string("k")); else vv->push_back(k); if (k % 2) vo->push_back(1.f * i); else vo->push_back(std::nullopt); }
    writer->Fill(); if (i % step == step - 1) writer->CommitCluster();
  }
}
void streamed(const char* path, int n, int codec) {  // a field that is not split: uproot cannot read it
  auto m = Model::Create(); auto x = m->MakeField<float>("x"); m->AddField(std::make_unique<ROOT::RStreamerField>("object", "TVector3"));
  auto writer = Writer::Recreate(std::move(m), "events", path, options(codec));
  for (int i = 0; i < n; i++) { *x = i; writer->Fill(); }
}
void emptytuple(const char* path, int, int codec) { auto m = Model::Create(); m->MakeField<float>("x"); Writer::Recreate(std::move(m), "events", path, options(codec)); }
}
