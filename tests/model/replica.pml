/* The protocol of replicated parameter servers: src/dist/ps_view.h (who is primary) and src/dist/ps_replica.h (what the
 * members do with it), checked by spin over all orders of events up to the limits below.
 *
 * Two members, an arbiter, and workers that want updates. Whatever is on its way may be delayed; any member, and the
 * arbiter, may be taken for silent at any time, whether it is or not; members die and start again, connections break, and
 * the arbiter dies and starts again with what it has on disk.
 *
 * What is claimed: an answer is only ever given by who has every update that was answered before (assertion in `answer`). A
 * second primary that answered, or a backup that took over without an update, would break it. When all lives in the view
 * have ended the count begins anew: the workers go back to a checkpoint. */

#ifndef DEATHS
#define DEATHS 2
#endif
#define UPDATES 3
#define TERMS 6
#define BREAKS 1
#define NONE 2

mtype = { BLANK, PRIMARY, BACKUP };

/* members */
mtype role[2];
byte life[2], term[2], has[2];
byte link[2];   /* of a primary: the life its records go to; 0: none */
byte sent[2], acked[2];
byte awaits[2]; /* of a primary: the life without which it answers nothing; 0: none */
byte since[2];
bool cut[2], pending[2], left_out[2];
byte source[2]; /* of a backup: the life that fills it; 0: its connection has ended */
bool named[2];
byte target[2]; /* of a primary: life to fill */

/* records and confirmations on their way: from whom, to whom, the update that the receiver then has */
chan records = [2] of { byte, byte, byte };
chan acks = [2] of { byte, bool }; /* to which life; taken */

/* the arbiter: the view on disk, and what it has heard */
byte v_term, v_primary = NONE, v_life, v_backup = NONE, v_backup_life;
bool heard[2];
mtype s_role[2];
byte s_life[2], s_term[2], s_awaits[2];
bool s_cut[2];
/* orders under way, and answers to them */
chan orders[2] = [1] of { byte, byte, byte, byte, byte, byte };
chan answers[2] = [1] of { byte, byte, byte, bool, mtype };

byte lives = 2, answered, deaths, breaks, made;

inline drop(m) {
  role[m] = BLANK; has[m] = 0; link[m] = 0; sent[m] = 0; acked[m] = 0; awaits[m] = 0; since[m] = 0;
  cut[m] = false; pending[m] = false; left_out[m] = false; source[m] = 0; named[m] = false; target[m] = 0;
}

inline new_life(m) { lives++; life[m] = lives; drop(m) }

inline lose_link(m) {
  link[m] = 0; sent[m] = 0; acked[m] = 0;
  cut[m] = awaits[m] != 0
}

/* ---- a member */

inline take_view(m, t, p, pl, b, bl) {
  if
  :: t >= term[m] && t > 0 && !left_out[m] ->
     term[m] = t;
     if
     :: role[m] == PRIMARY && !(p == m && pl == life[m]) -> left_out[m] = true
     :: role[m] == BLANK && p == m && pl == life[m] -> role[m] = PRIMARY
     :: role[m] == BACKUP && p == m && pl == life[m] ->
        role[m] = PRIMARY; source[m] = 0;
        pending[m] = has[m] > answered /* its worker comes back for the answer */
     :: else
     fi;
     if
     :: role[m] == BACKUP && !(b == m && bl == life[m]) && (named[m] || source[m] == 0) -> left_out[m] = true
     :: else
     fi;
     named[m] = role[m] == BACKUP && b == m && bl == life[m];
     if
     :: role[m] == PRIMARY && awaits[m] != 0 && b == NONE && t > since[m] ->
        awaits[m] = 0; cut[m] = false; link[m] = 0; sent[m] = 0; acked[m] = 0
     :: else
     fi
  :: else
  fi
}

proctype member(byte m) {
  byte t, p, pl, b, bl, f, from, to, value;
  bool good;
end:
  do
  :: atomic { left_out[m] -> new_life(m) }
  :: atomic { /* an order comes; its answer tells how this member is */
       !left_out[m] && nempty(orders[m]) && empty(answers[m]) ->
       orders[m]?t, p, pl, b, bl, f;
       take_view(m, t, p, pl, b, bl);
       target[m] = f;
       answers[m]!life[m], term[m], awaits[m], cut[m], role[m]
     }
  :: atomic { /* a worker's update: done here, and sent to the backup */
       !left_out[m] && role[m] == PRIMARY && !pending[m] && made < UPDATES &&
         (link[m] == 0 || nfull(records)) ->
       made++;
       has[m]++;
       pending[m] = true;
       if
       :: link[m] != 0 -> records!life[m], link[m], has[m]; sent[m]++
       :: else
       fi
     }
  :: atomic { /* answer */
       !left_out[m] && role[m] == PRIMARY && pending[m] && (awaits[m] == 0 || (!cut[m] && acked[m] == sent[m])) ->
       assert(has[m] == answered + 1);
       answered++;
       pending[m] = false
     }
  :: atomic { /* fills a backup: all that it holds, at once */
       !left_out[m] && role[m] == PRIMARY && link[m] == 0 && awaits[m] == 0 && target[m] != 0 && nfull(records) ->
       link[m] = target[m]; sent[m] = 1; acked[m] = 0;
       records!life[m], link[m], has[m]
     }
  :: atomic { /* it has everything: from now on answers wait for it */
       !left_out[m] && role[m] == PRIMARY && link[m] != 0 && awaits[m] == 0 && acked[m] == sent[m] ->
       awaits[m] = link[m]; since[m] = term[m]
     }
  :: atomic { /* a record comes; one for another life, or of another source, is refused */
       nempty(records) && records?[from, eval(life[m]), value] && nfull(acks) ->
       records?from, to, value;
       if
       :: !left_out[m] && role[m] == BLANK -> role[m] = BACKUP; source[m] = from; has[m] = value; acks!from, true
       :: !left_out[m] && role[m] == BACKUP && source[m] == from -> has[m] = value; acks!from, true
       :: else -> acks!from, false
       fi
     }
  :: atomic { /* a confirmation */
       nempty(acks) && acks?[eval(life[m]), good] ->
       acks?to, good;
       if
       :: link[m] != 0 && good -> acked[m]++
       :: link[m] != 0 && !good -> lose_link(m)
       :: else
       fi
     }
  :: atomic { /* the connection to the backup breaks; what was on its way is lost */
       link[m] != 0 && breaks < BREAKS ->
       breaks++;
       do
       :: nempty(records) -> records?from, to, value
       :: empty(records) -> break
       od;
       do
       :: nempty(acks) -> acks?to, good
       :: empty(acks) -> break
       od;
       if
       :: source[1 - m] == life[m] -> source[1 - m] = 0
       :: else
       fi;
       lose_link(m)
     }
  :: atomic { /* death: what is on its way to it or from it is lost */
       deaths < DEATHS ->
       deaths++;
       do
       :: nempty(records) -> records?from, to, value
       :: empty(records) -> break
       od;
       do
       :: nempty(acks) -> acks?to, good
       :: empty(acks) -> break
       od;
       if
       :: source[1 - m] == life[m] -> source[1 - m] = 0
       :: else
       fi;
       if
       :: link[1 - m] == life[m] -> lose_link(1 - m)
       :: else
       fi;
       new_life(m)
     }
  od
}

/* ---- the arbiter: ps_view_next. Whoever was heard may be taken for silent. */

#define ALIVE(m, l) (heard[m] && s_life[m] == l)
#define ENDED(m, l) (heard[m] && s_life[m] != l)
#define OTHER (1 - v_primary)

inline next_view(p, pl, b, bl) {
  v_term++;
  v_primary = p; v_life = pl; v_backup = b; v_backup_life = bl
}

active proctype arbiter() {
  byte m, l, t, a, f;
  bool c, serves, follows;
  mtype r;
end:
  do
  :: atomic { nempty(answers[0]) -> answers[0]?l, t, a, c, r;
       heard[0] = true; s_life[0] = l; s_term[0] = t; s_awaits[0] = a; s_cut[0] = c; s_role[0] = r }
  :: atomic { nempty(answers[1]) -> answers[1]?l, t, a, c, r;
       heard[1] = true; s_life[1] = l; s_term[1] = t; s_awaits[1] = a; s_cut[1] = c; s_role[1] = r }
  :: atomic { /* tells a member of the view */
       if
       :: empty(orders[0]) -> m = 0
       :: empty(orders[1]) -> m = 1
       fi;
       f = 0;
       if
       :: v_term > 0 && v_backup == NONE && v_primary == m && heard[1 - m] -> f = s_life[1 - m]
       :: else
       fi;
       orders[m]!v_term, v_primary, v_life, v_backup, v_backup_life, f
     }
  :: atomic { v_term == 0 && v_term < TERMS ->
       if
       :: heard[0] && s_role[0] == BLANK -> next_view(0, s_life[0], NONE, 0)
       :: heard[1] && s_role[1] == BLANK -> next_view(1, s_life[1], NONE, 0)
       fi
     }
  :: atomic { v_term > 0 && v_term < TERMS ->
       serves = ALIVE(v_primary, v_life);
       follows = false;
       if
       :: v_backup != NONE -> follows = ALIVE(v_backup, v_backup_life)
       :: else
       fi;
       if
       :: serves -> skip
       :: serves -> serves = false /* taken for silent */
       :: !serves
       fi;
       if
       :: follows -> skip
       :: follows -> follows = false
       :: !follows
       fi;
       if
       :: !serves && follows -> next_view(v_backup, v_backup_life, NONE, 0)
       :: serves && v_backup != NONE && (!follows || (s_term[v_primary] == v_term && s_cut[v_primary])) ->
          next_view(v_primary, v_life, NONE, 0)
       :: serves && v_backup == NONE && s_term[v_primary] == v_term && s_awaits[v_primary] != 0 ->
          if
          :: ALIVE(OTHER, s_awaits[v_primary]) && !s_cut[v_primary] ->
             next_view(v_primary, v_life, OTHER, s_awaits[v_primary])
          :: next_view(v_primary, v_life, NONE, 0)
          fi
       :: ENDED(v_primary, v_life) && (v_backup == NONE || ENDED(v_backup, v_backup_life)) ->
          if
          :: heard[0] && s_role[0] == BLANK -> next_view(0, s_life[0], NONE, 0); answered = 0
          :: heard[1] && s_role[1] == BLANK -> next_view(1, s_life[1], NONE, 0); answered = 0
          :: else
          fi
       :: else
       fi
     }
  :: atomic { /* it dies, and is started again: it knows what is on disk */
       deaths < DEATHS ->
       deaths++;
       heard[0] = false; heard[1] = false;
       do
       :: nempty(orders[0]) -> orders[0]?t, _, _, _, _, _
       :: nempty(orders[1]) -> orders[1]?t, _, _, _, _, _
       :: nempty(answers[0]) -> answers[0]?l, _, _, _, _
       :: nempty(answers[1]) -> answers[1]?l, _, _, _, _
       :: empty(orders[0]) && empty(orders[1]) && empty(answers[0]) && empty(answers[1]) -> break
       od
     }
  od
}

init {
  atomic {
    life[0] = 1; life[1] = 2;
    drop(0); drop(1);
    run member(0);
    run member(1)
  }
}
