// HTTP/1.0 on the loopback: one thread in a blocking accept(), one request at a time.
#pragma once
#include <arpa/inet.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

class HttpServer {
public:
	// The handler gets "/path?query" and returns the body; an empty one means 404.
	using Handler = std::function<std::string(const std::string&)>;

	HttpServer(long port, Handler handler) : handler_(std::move(handler))
	{
		sockaddr_in address{};
		socklen_t length = sizeof address;
		int on = 1;

		address.sin_family = AF_INET;
		address.sin_port = htons(static_cast<uint16_t>(port));
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) ||
		    listen(listener_, 64) || getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length)) {
			perror("http");
			exit(1);
		}
		port_ = ntohs(address.sin_port);
		thread_ = std::thread([this] { serve(); });
	}

	~HttpServer()
	{
		stopping_ = true;
		shutdown(listener_, SHUT_RDWR); // ends the blocking accept
		thread_.join();
		close(listener_);
	}

	int port() const { return port_; }

private:
	Handler handler_;
	int listener_, port_;
	std::atomic<bool> stopping_{false};
	std::thread thread_;

	void serve()
	{
		while (!stopping_) {
			int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
			if (fd >= 0) {
				answer(fd);
				close(fd);
			}
		}
	}

	void answer(int fd)
	{
		timeval patience{20, 0}; // a busy machine may let a client wait between connect and request
		char request[2048], path[1024] = "";

		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		ssize_t n = recv(fd, request, sizeof request - 1, 0);
		if (n <= 0)
			return;
		request[n] = 0;
		std::string body;
		if (sscanf(request, "GET %1023s", path) == 1)
			body = handler_(path);
		char head[128];
		snprintf(head, sizeof head, "HTTP/1.0 %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
			 body.empty() ? "404 Not Found" : "200 OK", body.size());
		std::string reply = head + body;
		for (size_t sent = 0; sent < reply.size();) {
			n = send(fd, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
			if (n <= 0)
				return;
			sent += static_cast<size_t>(n);
		}
	}
};

// ?name=123 of a path, or otherwise.
inline long query_number(const std::string& path, const char* name, long otherwise)
{
	size_t at = path.find(std::string(name) + "=");
	return at == std::string::npos ? otherwise : strtol(path.c_str() + at + std::string(name).size() + 1, nullptr, 10);
}
