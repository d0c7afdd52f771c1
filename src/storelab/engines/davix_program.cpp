// One davix session, driven by lines on standard input; answers are lines on standard output. The data read are in a
// memory file that the caller made (its number is the only argument), so that no data go through a pipe.
//
//   s3 REGION | token VARIABLE | certificate VARIABLE | insecure | timeout SECONDS    before the first request
//   size BYTES             the memory file has this length now
//   get URL                the whole object, as davix-get reads it
//   read OFFSET SIZE URL   one range
//   vector N URL           N ranges by one vector read, one after the other; N lines "OFFSET SIZE" follow
//
// An answer is `ok BYTES` or `no CODE STATUS`, then the counts since the start: requests, those for several ranges,
// ranges, bytes of the ranges, bytes handed over, bytes received by the kernel, connections open, opened; then the
// statuses of answers to several ranges (206:3,200:1 or -); at last a message. Keys, tokens and certificates come
// from the environment: AWS_…, and the named variables. A variable of a certificate, or one that ends in _FILE, has the
// path of a file.
#include <davix.hpp>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::mutex lock;
long requests, several, ranges, asked, handed, gone_bytes, gone;
int last_status;
std::set<Davix::HttpRequest*> waiting;  // requests for several ranges
std::map<int, long> statuses;           // statuses of their answers

// Return the bytes that the kernel received on a TCP connection, -1 for anything else.
long received(int fd) {
    tcp_info info;
    std::memset(&info, 0, sizeof info);
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
    const int state = info.tcpi_state;  // after the peer's FIN, which is counted as one byte
    return static_cast<long>(info.tcpi_bytes_received) - (state == 6 || state == 8 || state == 9 || state == 11);
}

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

void sent(Davix::HttpRequest& request, const std::string& head) {
    std::string low(head);
    std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return std::tolower(c); });
    std::lock_guard<std::mutex> guard(lock);
    ++requests;
    const std::string mark = "\nrange: bytes=";
    const auto at = low.find(mark);
    if (at == std::string::npos) return;
    const auto begin = at + mark.size();
    std::istringstream list(low.substr(begin, low.find_first_of("\r\n", begin) - begin));
    long count = 0;
    for (std::string one; std::getline(list, one, ',');) {
        long first, last;
        if (std::sscanf(one.c_str(), "%ld-%ld", &first, &last) == 2) asked += last - first + 1;
        ++count;
    }
    ranges += count;
    if (count > 1) {
        ++several;
        waiting.insert(&request);
    }
}

void answered(Davix::HttpRequest& request, const std::string&, const Davix::HeaderVec&, int status) {
    std::lock_guard<std::mutex> guard(lock);
    last_status = status;
    if (waiting.erase(&request)) ++statuses[status];
}

class Session {
   public:
    explicit Session(int buffer) : buffer_(buffer) {
        context_.setHook<Davix::RequestPreSendHook>(sent);
        context_.setHook<Davix::RequestPreReceHook>(answered);
        params_.setOperationRetry(0);
        params_.setMetalinkMode(Davix::MetalinkMode::Disable);  // otherwise davix asks for other copies after an error
    }

    long setting(const std::string& word, std::istringstream& rest, Davix::DavixError** error) {
        if (word == "s3") {
            std::string region;
            rest >> region;
            const char *access = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
            if (!access || !secret) throw std::runtime_error("there are no keys in the environment");
            params_.setProtocol(Davix::RequestProtocol::AwsS3);
            params_.setAwsAuthorizationKeys(secret, access);
            params_.setAwsRegion(region);
            params_.setAwsAlternate(true);  // the bucket is in the path
            if (const char* token = variable("AWS_SESSION_TOKEN")) params_.setAwsToken(token);
        } else if (word == "token") {
            std::string name;
            rest >> name;
            const char* value = variable(name.c_str());
            if (!value) throw std::runtime_error("the variable " + name + " is not set");
            std::string token(value);
            if (name.size() > 5 && name.compare(name.size() - 5, 5, "_FILE") == 0) {
                std::ifstream file(value);
                token.clear();
                file >> token;
                if (token.empty()) throw std::runtime_error("the file that " + name + " names has no token");
            }
            params_.addHeader("Authorization", "Bearer " + token);
        } else if (word == "certificate") {
            std::string name;
            rest >> name;
            const char* file = variable(name.c_str());
            if (!file) throw std::runtime_error("the variable " + name + " is not set");
            Davix::X509Credential own;
            if (own.loadFromFilePEM(file, file, "", error) < 0) return -1;
            params_.setClientCertX509(own);
        } else if (word == "insecure") {
            params_.setSSLCAcheck(false);
        } else if (word == "timeout") {
            timespec wait{0, 0};
            rest >> wait.tv_sec;
            params_.setOperationTimeout(&wait);
            timespec connect{std::min<time_t>(10, wait.tv_sec), 0};
            params_.setConnectionTimeout(&connect);
        } else if (word == "size") {
            long size = 0;
            rest >> size;
            if (data_) munmap(data_, static_cast<size_t>(size_));
            void* place = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, buffer_, 0);
            if (place == MAP_FAILED) throw std::runtime_error("the memory file cannot be mapped");
            data_ = static_cast<char*>(place);
            size_ = size;
        } else {
            throw std::runtime_error("unknown command: " + word);
        }
        return 0;
    }

    long get(const std::string& url, Davix::DavixError** error) {
        if (lseek(buffer_, 0, SEEK_SET) != 0) throw std::runtime_error("the memory file cannot be written");
        spoil(0, size_);
        Davix::DavFile file(context_, Davix::Uri(url));
        return file.getToFd(&params_, buffer_, error);
    }

    long read(long offset, long size, const std::string& url, Davix::DavixError** error) {
        fits(size);
        spoil(0, size);
        Davix::DavFile file(context_, Davix::Uri(url));
        return file.readPartial(&params_, data_, static_cast<size_t>(size), offset, error);
    }

    long vector(const std::vector<std::pair<long, long>>& wanted, const std::string& url, Davix::DavixError** error) {
        std::vector<Davix::DavIOVecInput> in(wanted.size());
        std::vector<Davix::DavIOVecOuput> out(wanted.size());
        long place = 0;
        for (size_t i = 0; i < wanted.size(); ++i) {
            fits(place + wanted[i].second);
            spoil(place, wanted[i].second);
            in[i].diov_buffer = data_ + place;
            in[i].diov_offset = wanted[i].first;
            in[i].diov_size = static_cast<size_t>(wanted[i].second);
            place += wanted[i].second;
        }
        Davix::DavFile file(context_, Davix::Uri(url));
        // The return value is not the sum of the ranges: davix may have merged them or counted some separately.
        if (file.readPartialBufferVec(&params_, in.data(), out.data(), in.size(), error) < 0) return -1;
        for (size_t i = 0; i < in.size(); ++i)
            if (static_cast<size_t>(out[i].diov_size) != in[i].diov_size) {
                std::ostringstream said;
                said << out[i].diov_size << " bytes came of " << in[i].diov_size << " at " << in[i].diov_offset;
                throw std::runtime_error(said.str());
            }
        return place;
    }

   private:
    void fits(long end) const {
        if (end > size_) throw std::runtime_error("the memory file is too short");
    }

    // Both ends of each range are changed, so that memory that is not written again is not taken for the answer.
    void spoil(long place, long size) const {
        for (long i = 0; data_ && i < std::min<long>(8, size); ++i) {
            data_[place + i] = static_cast<char>(~data_[place + i]);
            if (size > 16) data_[place + size - 1 - i] = static_cast<char>(~data_[place + size - 1 - i]);
        }
    }

    Davix::Context context_;
    Davix::RequestParams params_;
    int buffer_;
    char* data_ = nullptr;
    long size_ = 0;
};

void tell(const std::string& begin, const std::string& words) {
    long open = 0, bytes = 0;
    if (DIR* folder = opendir("/proc/self/fd")) {
        const int own = dirfd(folder);
        while (const dirent* entry = readdir(folder)) {
            const int fd = std::atoi(entry->d_name);
            const long more = entry->d_name[0] == '.' || fd == own ? -1 : received(fd);
            if (more >= 0) {
                ++open;
                bytes += more;
            }
        }
        closedir(folder);
    }
    std::lock_guard<std::mutex> guard(lock);
    std::cout << begin << ' ' << requests << ' ' << several << ' ' << ranges << ' ' << asked << ' ' << handed << ' '
              << gone_bytes + bytes << ' ' << open << ' ' << gone + open << ' ';
    if (statuses.empty()) std::cout << '-';
    const char* between = "";
    for (const auto& one : statuses) {
        std::cout << between << one.first << ':' << one.second;
        between = ",";
    }
    std::string line(words);
    std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < ' '; }, ' ');
    std::cout << ' ' << line << std::endl;
}

}  // namespace

// Each connection is counted before it ends: davix and neon close through this function, too.
extern "C" int close(int fd) {
    const long bytes = received(fd);
    if (bytes >= 0) {
        std::lock_guard<std::mutex> guard(lock);
        gone_bytes += bytes;
        ++gone;
    }
    return static_cast<int>(syscall(SYS_close, fd));
}

int main(int count, char** words) {
    if (count == 2 && std::string(words[1]) == "--version") {
        std::cout << "davix " << Davix::version() << ", " << Davix::backendRuntimeVersion() << std::endl;
        return 0;
    }
    if (count != 2) {
        std::cerr << "storelab's program of the engine davix; only the clients of the engine start it" << std::endl;
        return 2;
    }
    std::ios::sync_with_stdio(false);
    Session session(std::atoi(words[1]));
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream rest(line);
        std::string word, url;
        rest >> word;
        long bytes = -1;
        Davix::DavixError* error = nullptr;
        std::string said;
        last_status = 0;
        try {
            if (word == "get") {
                rest >> url;
                bytes = session.get(url, &error);
            } else if (word == "read") {
                long offset = 0, size = 0;
                rest >> offset >> size >> url;
                bytes = session.read(offset, size, url, &error);
            } else if (word == "vector") {
                size_t many = 0;
                rest >> many >> url;
                std::vector<std::pair<long, long>> wanted(many);
                for (auto& one : wanted) {
                    std::getline(std::cin, line);
                    std::istringstream(line) >> one.first >> one.second;
                }
                bytes = session.vector(wanted, url, &error);
            } else {
                bytes = session.setting(word, rest, &error);
            }
        } catch (const std::exception& problem) {
            bytes = -1;
            said = problem.what();
        }
        int code = 0;
        if (error) {
            code = error->getStatus();
            said = error->getErrMsg();
            Davix::DavixError::clearError(&error);
            bytes = -1;
        }
        std::ostringstream begin;
        if (bytes < 0) {
            begin << "no " << code << ' ' << last_status;
        } else {
            std::lock_guard<std::mutex> guard(lock);
            handed += bytes;
            begin << "ok " << bytes;
        }
        tell(begin.str(), said);
    }
    return 0;
}
