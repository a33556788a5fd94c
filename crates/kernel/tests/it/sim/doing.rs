//! What the engine does about a decision, and what the world does about the engine.

use weir_events::*;
use weir_kernel::compact::{self, Plan};
use weir_kernel::*;
use weir_types::*;

use super::op::{Answer, Decision, Op};
use super::{Sim, check};

impl Sim {
    /// One thing happens in the world; then the engine does what it can.
    pub(crate) fn happen(&mut self, op: &Op) {
        match op {
            Op::Say(size) => self.say(*size),
            Op::SayBlocks(content) => {
                self.append(UserMessage {
                    content: content.clone(),
                    runtime: Default::default(),
                    history: None,
                });
            }
            Op::Signal => self.append(ExternalSignal { name: "tick".into(), data: Json::null() }),
            Op::Go { answer, size, fails, decision } => {
                let awaiting = |call: &Call| matches!(call.state, CallState::Awaiting { .. });
                if self.asking.is_some() {
                    self.answer(answer);
                } else if !self.running.is_empty() {
                    self.tool_done(*size, *fails);
                } else if self.session.all_calls().any(awaiting) {
                    self.decide_approval(*decision);
                } else {
                    self.say(*size);
                }
            }
            Op::Errand(tool) => self.errand(tool),
            Op::Summarise(size) => self.summarise(*size),
            Op::ModelFails(class) => self.model_fails(*class, 0),
            Op::ToolAnswers(content) => self.tool_completed(content.clone()),
            Op::Late => self.late_result(),
            Op::Wait(millis) => self.now += i64::from(*millis) * 1_000,
            Op::Crash(times) => (0..*times).for_each(|_| self.crash()),
            Op::CrashIn(appends) => self.crash_in = Some(*appends),
            Op::Cancel => self.append(RunCancelRequested {}),
            Op::Halt => self.append(SessionHalted { reason: "wait".into(), imported: false }),
            Op::Resume => self.asked_to_resume(),
            Op::Close => self.append(SessionClosed { reason: "done".into() }),
            Op::Fork(share) => self.fork(self.events.len() * usize::from(*share) / 255),
            Op::Patch(patch) => self.append(StatePatched { patch: patch.clone() }),
            Op::Reload => {
                let snapshot = serde_json::to_vec(&self.session).unwrap();
                self.session = serde_json::from_slice(&snapshot).unwrap();
            }
        }
        self.settle();
    }

    /// Each message begins with a word of its own.
    fn say(&mut self, size: usize) {
        let text = format!("m{:07} {}", self.mint(), "u".repeat(size));
        let runtime = [("time".to_owned(), self.now.to_string())].into();
        self.append(UserMessage { content: vec![Block::text(text)], runtime, history: None });
    }

    fn asked_to_resume(&mut self) {
        // Whoever resumes a session that is busy is told so.
        if self.asking.is_none() && self.running.is_empty() {
            self.resume(ResumeReason::Asked);
        }
    }

    fn answer(&mut self, answer: &Answer) {
        match self.asking.take() {
            None => {}
            Some(Some(plan)) => self.summary(&plan, answer.text),
            Some(None) => {
                let Some(Run { phase: Phase::Calling(request), .. }) = &self.session.run else { panic!() };
                let input_tokens = request.estimated_tokens * answer.counted / 100;
                self.append(AssistantMessage {
                    content: answer.content(),
                    stop: answer.stop,
                    usage: Usage { input_tokens, output_tokens: 10, ..Usage::default() },
                    cost: NanoUsd(1),
                    model: "sim/model".into(),
                    provider_id: None,
                });
            }
        }
    }

    fn summarise(&mut self, size: usize) {
        if let Some(Some(plan)) = self.asking.clone() {
            self.asking = None;
            self.summary(&plan, size);
        }
    }

    fn summary(&mut self, plan: &Plan, size: usize) {
        let summary = "z".repeat(size);
        if compact::flaw(plan, &summary).is_some() {
            self.asking = Some(Some(plan.clone()));
            return self.model_fails(FailureClass::Invalid, 5);
        }
        self.seen.insert("compacted");
        let (files, failures) = compact::recorded(&self.session.activity);
        let before = self.session.transcript.entries.len();
        self.append(ContextCompacted {
            through: plan.through,
            tokens_before: plan.tokens,
            tokens_after: tokens::of_text(&summary),
            summary,
            files,
            failures,
            model: "sim/model".into(),
            usage: Usage::default(),
            cost: NanoUsd(1),
        });
        let after = self.session.transcript.entries.len();
        assert!(0 < after && after < before, "a summary covers something, and never the newest entry");
    }

    fn model_fails(&mut self, class: FailureClass, delay_ms: u64) {
        let Some(Run { phase: Phase::Calling(request), .. }) = &self.session.run else { return };
        let attempt = request.attempt;
        if self.asking.take().is_some() {
            self.seen.insert("failed");
            let (message, usage) = ("no".to_owned(), Usage::default());
            self.append(ModelFailed { class, attempt, delay_ms, message, usage, cost: NanoUsd(0) });
        }
    }

    fn tool_done(&mut self, size: usize, fails: bool) {
        if !fails {
            return self.tool_completed(vec![Block::text("r".repeat(size))]);
        }
        if let Some(call) = self.finish_first() {
            let (class, message) = ("error".to_owned(), "e".repeat(size));
            self.append(ToolFailed {
                call,
                class,
                message,
                outcome: Outcome::Failed,
                log: vec![],
                bill: None,
            });
        }
    }

    fn tool_completed(&mut self, content: Vec<Block>) {
        if let Some(call) = self.finish_first() {
            self.append(ToolCompleted {
                call,
                content,
                changed_files: vec!["x".into()],
                stub: false,
                whole: None,
                log: vec![],
                bill: None,
            });
        }
    }

    /// A tool that nobody listens to any more has something to say.
    fn late_result(&mut self) {
        let calls = self.session.transcript.last_assistant().map_or(&[][..], |entry| &entry.calls);
        let Some(call) = calls.iter().find(|call| matches!(call.state, CallState::Done(_))) else { return };
        let (call, before) = (call.id, self.session.transcript.clone());
        let content = vec![Block::text("late")];
        self.append(ToolCompleted {
            call,
            content,
            changed_files: vec![],
            stub: false,
            whole: None,
            log: vec![],
            bill: None,
        });
        self.seen.insert("late");
        assert_eq!(self.session.transcript, before);
    }

    fn finish_first(&mut self) -> Option<CallId> {
        let call = (!self.running.is_empty()).then(|| self.running.remove(0))?;
        self.finished.insert(call);
        Some(call)
    }

    fn decide_approval(&mut self, decision: Decision) {
        let awaiting = |call: &&Call| matches!(call.state, CallState::Awaiting { .. });
        let Some(call) = self.session.all_calls().find(awaiting) else { return };
        let (call, input_hash) = (call.id, call.input_hash());
        let by = "someone".to_owned();
        self.append(match decision {
            Decision::Grant => Body::from(ApprovalGranted {
                call,
                by,
                groups: vec![],
                input_hash,
                input: None,
                scope: Scope::Once,
                runs: None,
            }),
            Decision::GrantEdited => {
                let input = Some(Json::null());
                ApprovalGranted {
                    call,
                    by,
                    groups: vec![],
                    input_hash,
                    input,
                    scope: Scope::Once,
                    runs: None,
                }
                .into()
            }
            Decision::GrantOther => {
                let input_hash = Hash::ZERO;
                ApprovalGranted {
                    call,
                    by,
                    groups: vec![],
                    input_hash,
                    input: None,
                    scope: Scope::Once,
                    runs: None,
                }
                .into()
            }
            Decision::Deny => ApprovalDenied { call, by, groups: vec![], message: None }.into(),
        });
    }

    /// Does what was decided; false, if that is to wait for the world.
    pub(super) fn perform(&mut self, next: Next) -> bool {
        match next {
            Next::Rest => return false,
            Next::Busy => {
                assert!(self.asking.is_some() || !self.running.is_empty(), "busy with nothing");
                return false;
            }
            Next::Wait { due } => {
                assert!(due.is_none_or(|due| due > self.time()), "it waits for what has passed");
                return false;
            }
            Next::StartRun => {
                let run = RunId::from_u128(self.mint());
                self.append(RunStarted { run, trigger: Trigger::Input, lane: "direct".into() });
            }
            Next::CallModel { not_before, .. } | Next::Compact { not_before, .. }
                if not_before.is_some_and(|moment| moment > self.time()) =>
            {
                return false;
            }
            Next::CallModel { begin, attempt, .. } => self.ask(begin, attempt),
            Next::Compact { begin, attempt, plan, .. } => self.ask_summary(begin, attempt, plan),
            Next::RequestTools(uses) => uses.into_iter().for_each(|used| self.request(used)),
            Next::Authorise(calls) => calls.into_iter().for_each(|call| self.authorise(call)),
            Next::Execute(calls) => calls.into_iter().for_each(|call| self.start(call)),
            Next::AskAgain(calls) => {
                self.seen.insert("asked again");
                calls.into_iter().for_each(|call| self.request_approval(call, None));
            }
            Next::Close(closings) => self.close(closings),
            Next::Drop(closings) => {
                self.running.clear();
                self.close(closings);
            }
            Next::Cancel(closings) => self.stop(closings, RunCancelled { said: None }.into()),
            Next::Park { why, closing } => {
                self.seen.insert(parked(&why));
                self.stop(closing, RunParked { why }.into());
            }
            Next::Finish { stop } => {
                let (usage, cost) = (Usage::default(), NanoUsd(0));
                self.seen.insert("finished");
                self.append(RunFinished { stop, answer: None, usage, cost });
            }
            Next::Fail { class, message } => {
                assert!(!message.contains("no message"), "{message}");
                self.seen.insert(if message.contains("does not fit") { "does not fit" } else { "errored" });
                self.append(RunErrored { class, message });
            }
        }
        true
    }

    fn ask(&mut self, begin: Option<u32>, attempt: u32) {
        let window = window::select(&self.session, &self.agent).expect("decide has looked");
        let request = weir_kernel::render::request(&self.session, self.frame(), &window.ranges, window.cut);
        let sent = self.check_request(&request, &window);
        let ranges = window.ranges.clone();
        if self.requested(begin, attempt, &request, ranges, window.cut.share_tokens) {
            self.check_rebuilt(&request, &window);
            self.sent.push(super::Sent { seq: self.session.seq, ..sent });
            self.asking = Some(None);
        }
    }

    fn ask_summary(&mut self, begin: Option<u32>, attempt: u32, plan: Plan) {
        let request = compact::request(&self.session, "model", &plan);
        check::assert_valid(&request);
        let free = self.agent.context_tokens().saturating_sub(request.output_tokens_max);
        let counted = self.session.gauge.corrected(tokens::of_request(&request));
        assert!(counted <= free, "a request for a summary has {counted} tokens, {free} are free");
        let newest = self.session.transcript.entries.last().unwrap().seq();
        assert!(plan.through != newest, "the newest entry is never covered");
        let share_tokens = plan.cut.share_tokens;
        if self.requested(begin, attempt, &request, vec![[plan.from, plan.through]], share_tokens) {
            let folded = self.fold(self.events.len() - 1);
            assert_eq!(compact::request(&folded, "model", &plan), request);
            self.asking = Some(Some(plan));
        }
    }

    /// Writes the intent down; false, if the process goes down before it is sent.
    fn requested(
        &mut self,
        begin: Option<u32>,
        attempt: u32,
        request: &Request,
        window: Vec<[Seq; 2]>,
        share_tokens: u64,
    ) -> bool {
        if let Some(n) = begin {
            self.append(IterationStarted { n });
        }
        if self.crash_in == Some(0) {
            return false;
        }
        let estimated_tokens = tokens::of_request(request);
        let output = request.output_tokens_max;
        let reserve = window::reserve_for(&self.session, &self.agent, estimated_tokens, output);
        self.append(ModelRequested {
            model: "sim/model".into(),
            attempt,
            prompt: Hash::ZERO,
            tools: Hash::ZERO,
            window,
            params: Params {
                purpose: request.purpose,
                api_name: "model".into(),
                wire: "scripted".into(),
                output_tokens_max: output,
                share_tokens,
                estimated_tokens,
            },
            request_hash: Hash::ZERO,
            reserve,
            purses: vec![],
            context: None,
        });
        true
    }

    fn request(&mut self, used: ToolUse) {
        self.requested_by(used, None);
    }

    fn requested_by(&mut self, used: ToolUse, key: Option<String>) {
        if self.crash_in == Some(0) {
            return;
        }
        let known = self.agent.tools.iter().find(|tool| tool.definition.name == used.tool);
        let effect = known.map_or(Effect::Write, |tool| tool.effect);
        let on_interrupt = known.map_or(OnInterrupt::Report, |tool| tool.on_interrupt);
        let call = CallId::from_u128(self.mint());
        self.append(ToolRequested {
            call,
            provider_id: used.provider_id,
            tool: used.tool,
            source: "sim".into(),
            input: used.input,
            effect,
            risk: Risk::Low,
            on_interrupt,
            key,
        });
    }

    /// What is asked for from outside changes nothing of the conversation.
    fn errand(&mut self, tool: &str) {
        let is_parked = self.session.run.as_ref().is_some_and(|run| run.parked.is_some());
        let before =
            (self.session.transcript.clone(), self.session.inbox.clone(), self.session.activity.clone());
        let used = ToolUse { provider_id: String::new(), tool: tool.into(), input: Json::empty_object() };
        if self.session.lifecycle == Lifecycle::Open && !is_parked {
            self.seen.insert("errand");
            self.requested_by(used, Some("k".into()));
        }
        let after =
            (self.session.transcript.clone(), self.session.inbox.clone(), self.session.activity.clone());
        assert_eq!(after, before);
    }

    fn authorise(&mut self, call: CallId) {
        let found = self.session.call(call).expect("it asks about calls there are");
        let granted = matches!(found.state, CallState::Granted { .. });
        let known = self.agent.tools.iter().any(|tool| tool.definition.name == found.tool);
        let outcome = match found.tool.as_str() {
            "guarded" if !granted => Verdict::Ask,
            _ if known => Verdict::Allow,
            _ => Verdict::Deny,
        };
        self.append(ToolDecided {
            call,
            outcome,
            rule: None,
            step: None,
            because: "so".into(),
            stub: false,
            saw: None,
        });
        if outcome == Verdict::Ask {
            let expires = self.time().after_millis(60_000);
            self.request_approval(call, Some(expires));
        }
    }

    fn request_approval(&mut self, call: CallId, expires: Option<Timestamp>) {
        let input_hash = self.session.call(call).unwrap().input_hash();
        self.append(ApprovalRequested {
            call,
            input_hash,
            rule: "r".into(),
            expires,
            because: None,
            escalates: None,
        });
    }

    /// What must never happen twice does not.
    fn start(&mut self, id: CallId) {
        if self.crash_in == Some(0) {
            return;
        }
        let call = self.session.call(id).unwrap().clone();
        assert!(!self.finished.contains(&id), "a call that is done runs again");
        let times = self.started.entry(id).or_default();
        *times += 1;
        let harmless = call.effect != Effect::Write || call.tool == "child" || call.tool == "retry";
        let approved = call.tool == "ask" && call.state == CallState::Allowed;
        assert!(*times == 1 || harmless || approved, "a plain write runs again");
        assert!(call.tool != "guarded" || call.state == CallState::Allowed);
        let child = (call.tool == "child").then(|| SessionId::from_u128(1));
        let (key, input_hash) = (call.key(), call.input_hash());
        self.append(ToolStarted { call: id, attempt: call.attempt + 1, key, input_hash, child });
        self.running.push(id);
    }

    fn close(&mut self, closings: Vec<Closing>) {
        for Closing { call, class, message, outcome } in closings {
            let found = self.session.call(call).unwrap();
            let ran = self.started.contains_key(&call) && found.effect != Effect::Read;
            if outcome == Outcome::Unknown {
                self.seen.insert("unknown");
            }
            assert_eq!(ran, outcome == Outcome::Unknown, "what may have happened is unknown");
            self.finished.insert(call);
            self.append(ToolFailed { call, class, message, outcome, log: vec![], bill: None });
        }
    }

    fn stop(&mut self, closings: Vec<Closing>, last: Body) {
        self.asking = None;
        self.running.clear();
        self.close(closings);
        self.append(last);
    }
}

fn parked(why: &Parked) -> &'static str {
    match why {
        Parked::Limit { .. } => "limit",
        Parked::Budget { .. } => "budget",
        Parked::Loop { .. } => "loop",
        Parked::Halted => "halted",
        Parked::Crashes { .. } => "crashes",
        Parked::Storage { .. } => "storage",
    }
}
