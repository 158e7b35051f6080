/*
 * tests/model/resume.pml - a lane across nodes when connections and agents die
 *
 * What is modelled: one direction of a lane between two nodes. A pod W writes
 * its ring and head; agent 1 puts what is new into the replica at node 2, first
 * bytes, then the counter (daemonset/remote_pump.c); a pod R reads the replica
 * and stores its tail; agent 2 puts that tail into the replica at node 1, where
 * W sees it. How pods and agents wake each other is in lane.pml: here everybody
 * looks all the time.
 *
 * The connection is a FIFO each way. It breaks BREAKS times, at any moment; the
 * two sides notice one after the other, and what was under way is lost. When a
 * side is up again it says how far its replica has come (LANE_SYNC), and puts
 * nothing before it has heard the same from the other side. The same happens
 * when an agent is killed and another takes over (KILL): it knows nothing but
 * what stands in the segments.
 *
 * What must hold: R reads every byte once and in order, and never sees a head
 * that breaks the rules of segment.h; W never sees such a tail; in the end all
 * of it has arrived (a lane that hangs is a state without a successor).
 *
 * Each of these takes one thing away, and must be found out:
 *   NO_SYNC         go on from what was sent, not from what has arrived
 *   NO_PAUSE        put before the other side has said how far it is
 *   COUNTERS_FIRST  the counter may be put before the bytes
 *   OLD_FRAMES      what a broken connection still held may land
 *   REWIND          start again from the last tail instead
 *   NO_REPEAT_TAIL  the tail is only put when it moves
 */
#ifndef SENDS
#define SENDS 3
#endif
#ifndef BREAKS
#define BREAKS 2
#endif
#define RING 2
#define FLIGHT 3

mtype = { BYTE, HEAD, TAIL, SYNC };

chan to2 = [FLIGHT] of { mtype, byte, byte, byte };	/* epoch, place, value */
chan to1 = [FLIGHT] of { mtype, byte, byte, byte };

/* Node 1: W's segment, and the replica of R's. */
byte w_ring[RING], w_head, w_tail;
/* Node 2: R's segment, and the replica of W's. */
byte r_ring[RING], r_head, r_tail;

byte link;			/* the connection that there is */
byte epoch1, epoch2;		/* the one that each agent knows */

/* What a connection held that has broken is lost. */
inline lose(from, mine)
{
	d_step {
		do
		:: nempty(from) ->
			from?<m, e, at, v>;
			if
			:: e < mine -> from?m(e, at, v)
			:: else -> break
			fi
		:: empty(from) -> break
		od;
		m = 0; e = 0; at = 0; v = 0
	}
}

/* --- pods ----------------------------------------------------------------- */

proctype writer()
{
	byte tail;

	do
	:: w_head < SENDS ->
		d_step {
			assert(w_tail >= tail && w_tail <= w_head);
			tail = w_tail
		}
		if
		:: w_head - tail < RING ->
			w_ring[w_head % RING] = w_head + 1;
			w_head++
		:: w_tail != tail
		fi
	:: else -> break
	od
}

proctype reader()
{
	byte head;

	do
	:: r_tail < SENDS ->
		d_step {
			r_head != head;
			assert(r_head >= head && r_head - r_tail <= RING);
			head = r_head
		}
		do
		:: d_step {
			r_tail < head ->
			assert(r_ring[r_tail % RING] == r_tail + 1);
			r_tail++
		   }
		:: else -> break
		od
	:: else -> break
	od;
	assert(w_head == SENDS)
}

/* --- the agent of the writer ---------------------------------------------- */

proctype agent1()
{
	byte sent, head, e, at, v;
	bit paused;
	mtype m;

end:	do
	/* Down, and up again. */
	:: epoch1 != link ->
		epoch1 = link;
		lose(to1, epoch1);
#ifdef KILL
		sent = 0;
#endif
#ifdef REWIND
		sent = w_tail;
		head = w_tail;
#else
#ifndef NO_PAUSE
		paused = 1;
#endif
#endif
		to2!SYNC(epoch1, 0, 0)
	/* A frame of the other side. */
	:: atomic { to1?[m, e, at, v] && epoch1 == link -> to1?m(e, at, v) }
		if
		:: e != epoch1
		:: e == epoch1 && m == TAIL -> w_tail = v
		:: e == epoch1 && m == SYNC ->
#ifndef REWIND
#ifndef NO_SYNC
			assert(v <= w_head && v >= w_tail);
			sent = v;
			head = v;
#endif
#endif
			paused = 0
		fi;
		d_step { m = 0; e = 0; at = 0; v = 0 }
#ifdef COUNTERS_FIRST
	:: epoch1 == link && !paused && head < w_head && head == sent &&
	   nfull(to2) ->
		head++;
		to2!HEAD(epoch1, 0, head)
	:: epoch1 == link && !paused && sent < head && nfull(to2) ->
		to2!BYTE(epoch1, sent % RING, w_ring[sent % RING]);
		sent++
#else
	:: epoch1 == link && !paused && sent < w_head && nfull(to2) ->
		to2!BYTE(epoch1, sent % RING, w_ring[sent % RING]);
		sent++
	:: epoch1 == link && !paused && head < sent && nfull(to2) ->
		head = sent;
		to2!HEAD(epoch1, 0, head)
#endif
	od
}

/* --- the agent of the reader ---------------------------------------------- */

proctype agent2()
{
	byte tail_sent, e, at, v;
	bit paused, stale;
	mtype m;

end:	do
	:: epoch2 != link ->
		epoch2 = link;
#ifndef OLD_FRAMES
		lose(to2, epoch2);
#endif
		paused = 1;
		to1!SYNC(epoch2, 0, r_head)
	:: atomic { to2?[m, e, at, v] && epoch2 == link -> to2?m(e, at, v) }
		if
#ifdef OLD_FRAMES
		:: m == SYNC && e != epoch2
		:: m != SYNC || e == epoch2 ->
#else
		:: e != epoch2
		:: e == epoch2 ->
#endif
			if
			:: m == BYTE -> r_ring[at] = v
			:: m == HEAD -> r_head = v
			:: m == SYNC ->
				paused = 0;
#ifndef NO_REPEAT_TAIL
				stale = 1
#endif
			fi
		fi;
		d_step { m = 0; e = 0; at = 0; v = 0 }
	:: epoch2 == link && !paused && nfull(to1) &&
	   (stale || tail_sent != r_tail) ->
		stale = 0;
		tail_sent = r_tail;
		to1!TAIL(epoch2, 0, tail_sent)
	od
}

/* --- the network ---------------------------------------------------------- */

proctype network()
{
	do
	:: link < BREAKS -> link++
	:: break
	od
}

init {
	atomic {
		run writer();
		run reader();
		run agent1();
		run agent2();
		run network()
	}
}
