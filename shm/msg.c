/* shm/msg.c - the form of messages and names, checked at one place */
#include <ctype.h>
#include <string.h>

#include "shm/conn.h"

static const uint16_t lengths[] = {
	[PL_MSG_ERROR] = sizeof(struct pl_msg_error),
	[PL_MSG_OK] = sizeof(struct pl_msg_ok),
	[PL_MSG_HELLO] = sizeof(struct pl_msg_hello),
	[PL_MSG_HELLO_OK] = sizeof(struct pl_msg_hello_ok),
	[PL_MSG_LISTEN] = sizeof(struct pl_msg_listen),
	[PL_MSG_LISTEN_OK] = sizeof(struct pl_msg_ok),
	[PL_MSG_CONNECT] = sizeof(struct pl_msg_connect),
	[PL_MSG_CONNECT_OK] = sizeof(struct pl_msg_lane),
	[PL_MSG_INCOMING] = sizeof(struct pl_msg_lane),
	[PL_MSG_ACCEPT] = sizeof(struct pl_msg_accept),
	[PL_MSG_REJECT] = sizeof(struct pl_msg_ok),
	[PL_MSG_LANE_CLOSE] = sizeof(struct pl_msg_id),
	[PL_MSG_REGION_CREATE] = sizeof(struct pl_msg_region_create),
	[PL_MSG_REGION_CREATE_OK] = sizeof(struct pl_msg_region),
	[PL_MSG_REGION_OPEN] = sizeof(struct pl_msg_region_open),
	[PL_MSG_REGION_OPEN_OK] = sizeof(struct pl_msg_region),
	[PL_MSG_REGION_CLOSE] = sizeof(struct pl_msg_id),
	[PL_MSG_REGION_END] = sizeof(struct pl_msg_id),
};

size_t pl_msg_len(uint16_t type)
{
	return type < sizeof(lengths) / sizeof(lengths[0]) ? lengths[type] : 0;
}

bool pl_msg_valid(const void *msg, size_t len)
{
	struct pl_msg_hdr h;

	if (len < sizeof(h))
		return false;
	memcpy(&h, msg, sizeof(h));
	return h.magic == PL_WIRE_MAGIC && h.version == PL_WIRE_VERSION &&
	       h.len == len && pl_msg_len(h.type) == len;
}

void pl_msg_fill(void *msg, uint16_t type, uint32_t seq)
{
	struct pl_msg_hdr h = {
		.magic = PL_WIRE_MAGIC,
		.version = PL_WIRE_VERSION,
		.type = type,
		.seq = seq,
		.len = (uint32_t)pl_msg_len(type),
	};

	memcpy(msg, &h, sizeof(h));
}

bool pl_msg_text_valid(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

bool pl_name_valid(const char *name)
{
	size_t n = strnlen(name, PL_NAME_BYTES);

	if (n == 0 || n == PL_NAME_BYTES)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) &&
		    !strchr("._/:-", name[i]))
			return false;
	return true;
}
