%% Light processes of Erlang: see protocol.rs for the messages on standard input and output.
-module(manycore_light).
-export([main/0, serve/0, live/1]).

%% Shared state. The entries of `cells` are: how many are alive, whether work is to stop, whether the reason of a
%% failure was already reported, completed rounds on files, failed rounds.
-record(shared, {cells, times, origin}).
-define(ALIVE, 1).
-define(STOP, 2).
-define(TOLD, 3).
-define(ROUNDS, 4).
-define(FAILED, 5).
%% Buckets of times: as in manycore's histogram, 64 per power of two, below 2^40 ns.
-define(BUCKETS, 2240).

main() -> spawn(?MODULE, serve, []).

serve() ->
    %% A port of its own: the process that serves the standard one would wait its turn among a million others.
    Port = open_port({fd, 0, 1}, [{line, 65536}, eof, binary]),
    say(Port, ["ready\tunit=process\tschedulers=", int(erlang:system_info(schedulers_online)),
               "\tbinding=", atom_to_list(erlang:system_info(scheduler_bind_type)),
               "\tplaces=", int(erlang:system_info(process_limit)),
               "\ttaken=", int(erlang:system_info(process_count)),
               "\tversion=Erlang/OTP ", erlang:system_info(otp_release),
               " (ERTS ", erlang:system_info(version), ")"]),
    Shared = #shared{cells = atomics:new(5, []), origin = self(),
                     times = counters:new(?BUCKETS, [write_concurrency])},
    listen(Port, Shared, processes()).

listen(Port, Shared, Others) ->
    receive
        {Port, {data, {eol, Line}}} ->
            obey(binary:split(Line, <<"\t">>, [global]), Port, Shared, Others),
            listen(Port, Shared, Others);
        {Port, eof} -> halt(1, [{flush, false}])
    end.

obey([<<"start">>, N, Step], Port, Shared, _) ->
    start(Port, Shared, binary_to_integer(N), binary_to_integer(Step));
obey([<<"look">>], Port, _, _) ->
    say(Port, ["look\town=", int(erlang:memory(total))]);
obey([<<"spin">>, Milliseconds, Interval], Port, Shared, Others) ->
    spin(Port, Shared, Others, binary_to_integer(Milliseconds), binary_to_integer(Interval));
obey([<<"io">>, Milliseconds, Bytes, Folder], Port, Shared, Others) ->
    io(Port, Shared, Others, binary_to_integer(Milliseconds), binary_to_integer(Bytes), Folder);
obey([<<"end">>], Port, Shared, Others) ->
    tell(Others, stop),
    wait(fun() -> atomics:get(Shared#shared.cells, ?ALIVE) =:= 0 end),
    say(Port, "gone"),
    halt(0).

%% Starting

start(Port, Shared, N, Step) ->
    Began = erlang:monotonic_time(),
    {Count, Refused} = start(Port, Shared, N, Step, 0),
    wait(fun() -> atomics:get(Shared#shared.cells, ?ALIVE) =:= Count end),
    Seconds = seconds(erlang:monotonic_time() - Began),
    say(Port, ["started\talive=", int(Count), "\tseconds=", Seconds, Refused]).

start(_, _, N, _, N) -> {N, ""};
start(Port, Shared, N, Step, Done) ->
    try spawn(?MODULE, live, [Shared]) of
        _ ->
            Step > 0 andalso Done rem Step =:= 0 andalso say(Port, ["alive\t", int(Done)]),
            start(Port, Shared, N, Step, Done + 1)
    catch
        error:Why -> {Done, ["\trefused=", atom_to_list(Why)]}
    end.

live(Shared) ->
    atomics:add(Shared#shared.cells, ?ALIVE, 1),
    idle(Shared).

idle(Shared) ->
    receive
        stop -> atomics:sub(Shared#shared.cells, ?ALIVE, 1);
        spin -> burn(Shared), idle(Shared);
        {io, Name, Data} -> files(Shared, Name, Data), idle(Shared)
    end.

%% Computing

spin(Port, Shared, Others, Milliseconds, Interval) ->
    %% The sampling process must not wait for the processes that it samples.
    process_flag(priority, high),
    erlang:system_flag(scheduler_wall_time, true),
    tell(Others, spin),
    say(Port, "spinning"),
    Before = scheduler_times(),
    Queued = watch(Milliseconds div Interval, Interval),
    After = scheduler_times(),
    atomics:put(Shared#shared.cells, ?STOP, 1),
    Shares = [float_to_list((A2 - A1) / max(1, T2 - T1), [{decimals, 4}])
              || {{I, A1, T1}, {I, A2, T2}} <- lists:zip(Before, After)],
    say(Port, ["spun\tqueued=", list([int(Count) || Count <- Queued]), "\tschedulers=", list(Shares)]),
    process_flag(priority, normal).

watch(0, _) -> [];
watch(Looks, Interval) ->
    receive after Interval -> ok end,
    [erlang:statistics(total_run_queue_lengths) | watch(Looks - 1, Interval)].

%% Only schedulers that run processes; dirty schedulers (long native calls) have higher numbers.
scheduler_times() ->
    Count = erlang:system_info(schedulers_online),
    lists:sort([Time || {Id, _, _} = Time <- erlang:statistics(scheduler_wall_time), Id =< Count]).

burn(Shared) ->
    burn(1, 4000),
    case atomics:get(Shared#shared.cells, ?STOP) of
        0 -> burn(Shared);
        _ -> ok
    end.

burn(X, 0) -> X;
%% Small integers only: big integers would make the heap grow.
burn(X, N) -> burn((X * 69069 + 12345) band 16#fffffff, N - 1).

%% Files

io(Port, #shared{cells = Cells} = Shared, Others, Milliseconds, Bytes, Folder) ->
    process_flag(priority, high),
    Data = binary:copy(<<"m">>, Bytes),
    Began = erlang:monotonic_time(),
    Pids = ours(Others),
    _ = [Pid ! {io, filename:join(Folder, int(Number)), Data}
         || {Number, Pid} <- lists:zip(lists:seq(1, length(Pids)), Pids)],
    say(Port, "working"),
    receive after Milliseconds -> ok end,
    atomics:put(Cells, ?STOP, 1),
    %% Rounds that have begun are completed and counted: leaving out the last ones would leave out the slow ones.
    process_flag(priority, normal),
    Alive = atomics:get(Cells, ?ALIVE),
    Reason = ended(Alive, none),
    Times = [[int(Index), $:, int(Count)]
             || Index <- lists:seq(0, ?BUCKETS - 1),
                (Count = counters:get(Shared#shared.times, Index + 1)) > 0],
    say(Port, ["done\tseconds=", seconds(erlang:monotonic_time() - Began),
               "\toperations=", int(atomics:get(Cells, ?ROUNDS)), "\tfailed=", int(atomics:get(Cells, ?FAILED)),
               "\twhy=", atom_to_list(Reason), "\tlatency=", list(Times)]).

ended(0, Reason) -> Reason;
ended(Left, Reason) ->
    receive
        {failed, Why} -> ended(Left, Why);
        worked -> ended(Left - 1, Reason)
    end.

files(#shared{cells = Cells, origin = Origin} = Shared, Name, Data) ->
    case atomics:get(Cells, ?STOP) of
        1 -> Origin ! worked;
        0 ->
            Began = erlang:monotonic_time(nanosecond),
            case round(Name, Data) of
                ok ->
                    counters:add(Shared#shared.times, bucket(erlang:monotonic_time(nanosecond) - Began) + 1, 1),
                    atomics:add(Cells, ?ROUNDS, 1);
                {error, Why} ->
                    atomics:add(Cells, ?FAILED, 1),
                    atomics:exchange(Cells, ?TOLD, 1) =:= 0 andalso (Origin ! {failed, Why}),
                    receive after 10 -> ok end
            end,
            files(Shared, Name, Data)
    end.

round(Name, Data) ->
    case file:open(Name, [raw, binary, read, write]) of
        {ok, File} ->
            Done = case file:write(File, Data) of
                ok ->
                    case file:pread(File, 0, byte_size(Data)) of
                        {ok, Data} -> ok;
                        {ok, _} -> {error, other_data};
                        eof -> {error, eof};
                        Error -> Error
                    end;
                Error -> Error
            end,
            case file:close(File) of
                ok -> Done;
                Failed -> Failed
            end;
        Error -> Error
    end.

bucket(Ns) when Ns < 64 -> Ns;
bucket(Ns) ->
    Time = min(Ns, (1 bsl 40) - 1),
    Exponent = doublings(Time, 0) - 6,
    ((Exponent + 1) bsl 6) + (Time bsr Exponent) - 64.

doublings(1, Count) -> Count;
doublings(Time, Count) -> doublings(Time bsr 1, Count + 1).

%% Helpers

ours(Others) -> processes() -- Others.

tell(Others, What) -> [Pid ! What || Pid <- ours(Others)], ok.

wait(Condition) ->
    case Condition() of
        true -> ok;
        false -> receive after 1 -> wait(Condition) end
    end.

say(Port, Text) -> port_command(Port, [Text, $\n]).

seconds(Native) ->
    float_to_list(erlang:convert_time_unit(Native, native, nanosecond) / 1.0e9, [{decimals, 9}]).

int(Number) -> integer_to_list(Number).

list(Words) -> lists:join($,, Words).
