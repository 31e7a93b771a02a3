// SPDX-License-Identifier: GPL-2.0

//! The server side of sunrpc: transport classes for RPC services such as nfsd.
//!
//! A *transport class* is a way for the kernel's RPC services to receive Calls and to send Replies.
//! A module implements [`Listen`] for its listeners and [`Connect`] for its connections, and
//! registers both as a [`Class`]. From then on an administrator can add a listener of that class to
//! a service, for example by writing to `/proc/fs/nfsd/portlist`.
//!
//! C headers: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h),
//! [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)
//!
//! # Objects
//!
//! | type | C type | what it is |
//! |---|---|---|
//! | [`Class`] | `svc_xprt_class` | a registered transport class; dropping it unregisters the class |
//! | [`Transport`] | `svc_xprt` | a listener or a connection; sunrpc counts its references and frees it |
//! | [`Vacant`] | | memory for a transport that is not accepted yet |
//! | [`New`] | `svc_xprt` | an accepted connection that sunrpc does not know yet |
//! | [`Inbox`] | `XPT_CONN`, `XPT_DATA` | the queue of connect requests or Calls that wait for an nfsd thread |
//! | [`Context`] | `rq_xprt_ctxt` | a received Call, which travels with the request of an nfsd thread |
//! | [`Rqst`] | `svc_rqst` | the request of the calling nfsd thread, before it has a Call |
//! | [`Results`] | `rq_res` | the encoded results of a Call |
//! | [`Backchannel`] | `xprt_class` | the registered way of callbacks; dropping it unregisters it |
//! | [`Channel`] | `rpc_xprt` | the callback transport of one connection |
//! | [`Back`] | `rpc_xprt_ops` | the operations that send callbacks over a connection |
//!
//! # Operations
//!
//! All operations are called in process context. All may sleep, except as noted.
//!
//! | operation | caller | concurrent calls |
//! |---|---|---|
//! | [`Listen::create`] | the task that adds a listener to the service | one at a time, under `nfsd_mutex` |
//! | [`Listen::accept`] | an nfsd thread | one at a time for each listener |
//! | [`Listen::discard`], [`Listen::detach`] | the nfsd thread or task that closes the listener | |
//! | [`Connect::recvfrom`] | an nfsd thread | several threads for one connection |
//! | [`Connect::result_payload`] | the nfsd thread that encodes the results | that thread alone has the Call |
//! | [`Connect::sendto`] | an nfsd thread; must not wait for the peer | several threads for one connection |
//! | [`Connect::release`] | any task that drops a Call | several tasks for one connection |
//! | [`Connect::has_space`] | any context; takes no lock, does not sleep | everything |
//! | [`Connect::back`] | a task that sets up callbacks | several tasks for one connection |
//! | [`Connect::bind`] | the task that has set up callbacks | at most once for each connection |
//! | [`Connect::detach`] | the nfsd thread or task that closes the connection | once; other operations may be running |
//! | [`Back::send`] | `rpciod`; must wait neither for memory nor for the peer | one at a time for each connection |
//! | [`Back::waits`], [`Back::is_closing`] | `rpciod` and other workqueues; do not sleep | everything |
//!
//! # The life of a connection
//!
//! 1. A connect request arrives. The class pushes it to the inbox of the listener; the inbox raises
//!    `XPT_CONN` and wakes an nfsd thread.
//! 2. The thread calls [`Listen::accept`], which allocates a [`Vacant`], tells the peer that it is
//!    accepted, and makes the connection with [`Vacant::connection`].
//! 3. The class pushes each received Call to the inbox of the connection; the inbox raises
//!    `XPT_DATA` and wakes an nfsd thread if [`Connect::has_space`] allows it.
//! 4. The thread calls [`Connect::recvfrom`], which lays the bytes of the Call out for nfsd with
//!    [`Rqst::deliver`]. The Call then belongs to the thread's request.
//! 5. nfsd handles the Call and encodes the results. The thread then takes the Call back from its
//!    request and passes both to [`Connect::sendto`]. A Call that nfsd drops goes to
//!    [`Connect::release`].
//! 6. The class calls [`Inbox::close`] when the connection ends, and an nfsd thread closes the
//!    transport. nfsd also closes transports without being asked, for example when it stops.
//!    Closing a transport detaches its inbox, calls [`Connect::detach`], and passes the Calls that
//!    are left in the inbox to [`Connect::release`].
//! 7. sunrpc drops the [`Transport`], and with it the value of the [`Connect`] type, when the last
//!    thread has dropped its reference.
//!
//! # Locking
//!
//! The lock of an [`Inbox`] is held while the inbox wakes a thread. sunrpc's own locks and
//! [`Connect::has_space`] nest inside it, so `has_space` must not use the inbox.
//!
//! # Limits
//!
//! One class and one backchannel can be registered at a time: `xpo_create` and `setup` are not told
//! which class they are called for.
//!
//! # Examples
//!
//! A class whose Calls and Replies are single messages. `Server`, `Request`, `Socket`, `Wire` and
//! `Message` belong to the class: `Wire` implements [`Back`], and `Message` implements [`Context`]
//! with `State = ()`.
//!
//! ```ignore
//! struct Listener(Socket);
//!
//! impl Listen for Listener {
//!     type Context = Server;
//!     type Item = Request;
//!     type Connection = Connection;
//!
//!     fn create(
//!         server: &Arc<Server>,
//!         net: Net<'_>,
//!         addr: &Addr,
//!     ) -> Result<(Self, Arc<Inbox<Request>>, Addr)> {
//!         let inbox = Inbox::new(BACKLOG, Flag::Conn)?;
//!         // The socket pushes each connect request to the inbox.
//!         let socket = server.listen(net, addr, inbox.clone())?;
//!         let local = socket.local();
//!         Ok((Self(socket), inbox, local))
//!     }
//!
//!     fn accept(
//!         &self,
//!         listener: &Transport<Self, Request>,
//!         request: Request,
//!     ) -> Option<New<Connection>> {
//!         // All allocations come first: nothing can fail once the peer is accepted.
//!         let vacant = Vacant::new().ok()?;
//!         let inbox = Inbox::new(MAX_CALLS, Flag::Data).ok()?;
//!         let (local, peer) = (request.local(), request.peer());
//!         let wire = request.accept(inbox.clone()).ok()?;
//!         Some(vacant.connection(listener, Connection(wire), inbox, &local, &peer))
//!     }
//!
//!     fn discard(&self, request: Request) {
//!         request.reject();
//!     }
//!
//!     fn detach(&self) {
//!         self.0.close();
//!     }
//! }
//!
//! struct Connection(Arc<Wire>);
//!
//! impl Connect for Connection {
//!     type Call = Message;
//!     type Back = Wire;
//!
//!     fn recvfrom<'a>(&self, call: Message, rqst: Rqst<'a>) -> Option<Delivered<'a, Message>> {
//!         let (_, len) = call.message_raw();
//!         Some(rqst.deliver(call, Arg::Message(0..len)))
//!     }
//!
//!     // All results are sent inline.
//!     fn result_payload(_state: &mut (), _offset: u32, _len: u32) {}
//!
//!     fn sendto(&self, _call: Message, results: Results<'_>) {
//!         let Some(mut reply) = self.0.reply_buffer(results.result_len()) else {
//!             return self.0.close();
//!         };
//!         results.copy_result(0, reply.bytes_mut());
//!         results.keep_result_pages();
//!         self.0.send(reply);
//!     }
//!
//!     fn has_space(&self, running: impl Fn() -> i32) -> bool {
//!         // The end of a running Call makes sunrpc ask again.
//!         running() < MAX_RUNNING
//!     }
//!
//!     fn release(&self, call: Message) {
//!         drop(call);
//!     }
//!
//!     fn back(&self) -> Arc<Wire> {
//!         self.0.clone()
//!     }
//!
//!     fn bind(&self, channel: Channel) {
//!         self.0.set_channel(channel);
//!     }
//!
//!     fn detach(&self) {
//!         self.0.close();
//!     }
//! }
//!
//! /// The class is dropped before the backchannel, and registered after it.
//! #[pin_data]
//! struct Module {
//!     #[pin]
//!     class: Class<Listener>,
//!     #[pin]
//!     backchannel: Backchannel<Listener>,
//! }
//!
//! impl kernel::InPlaceModule for Module {
//!     fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
//!         pin_init::pin_init_scope(move || {
//!             let server = Server::new()?;
//!             Ok(try_pin_init!(Self {
//!                 // The module is dropped when it is unloaded, as both demand.
//!                 backchannel <- unsafe { Backchannel::register(module, IDENT) },
//!                 class <- unsafe { Class::register(module, c"example", IDENT, server) },
//!             }? Error))
//!         })
//!     }
//! }
//! ```
//!
//! [`Back`]: callback::Back
//! [`Back::is_closing`]: callback::Back::is_closing
//! [`Back::send`]: callback::Back::send
//! [`Back::waits`]: callback::Back::waits
//! [`Backchannel`]: backchannel::Backchannel
//! [`Channel`]: callback::Channel
//! [`Class`]: class::Class
//! [`Connect`]: xprt::Connect
//! [`Connect::back`]: xprt::Connect::back
//! [`Connect::bind`]: xprt::Connect::bind
//! [`Connect::detach`]: xprt::Connect::detach
//! [`Connect::has_space`]: xprt::Connect::has_space
//! [`Connect::recvfrom`]: xprt::Connect::recvfrom
//! [`Connect::release`]: xprt::Connect::release
//! [`Connect::result_payload`]: xprt::Connect::result_payload
//! [`Connect::sendto`]: xprt::Connect::sendto
//! [`Context`]: support::context::Context
//! [`Inbox`]: inbox::Inbox
//! [`Inbox::close`]: inbox::Inbox::close
//! [`Listen`]: xprt::Listen
//! [`Listen::accept`]: xprt::Listen::accept
//! [`Listen::create`]: xprt::Listen::create
//! [`Listen::detach`]: xprt::Listen::detach
//! [`Listen::discard`]: xprt::Listen::discard
//! [`New`]: xprt::New
//! [`Results`]: results::Results
//! [`Rqst`]: rqst::Rqst
//! [`Rqst::deliver`]: rqst::Rqst::deliver
//! [`Transport`]: xprt::Transport
//! [`Vacant`]: xprt::Vacant
//! [`Vacant::connection`]: xprt::Vacant::connection

pub mod backchannel;
pub mod callback;
mod callback_xprt;
pub mod class;
mod classes;
pub mod inbox;
mod ops;
mod register;
pub mod results;
pub mod rqst;
pub mod xprt;

/// The prefix of log lines, which `kernel::prelude::pr_err!` and its siblings expect.
const __LOG_PREFIX: &[u8] = b"svcrdma\0";

/// Waits until no nfsd thread that has just started still reads a removed listener.
///
/// A starting nfsd thread reads the first listener of its service without a lock (`nfsd` in
/// fs/nfsd/nfssvc.c), as listeners are not expected to go while threads run. A class that does
/// remove a listener from a running service calls this function when the listener is off the
/// service's list, before its memory is freed: in the `Drop` implementation of its
/// [`Listen`](xprt::Listen) type.
///
/// # Context
///
/// Process context. Sleeps for about a quarter of a second.
pub fn wait_for_new_threads() {
    support::wait_for_tasks();
}
