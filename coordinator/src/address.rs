//! Where nodes reach this coordinator: a port that lasts over restarts, and addresses that mean something elsewhere.

use crate::start::Options;
use crate::state::{Layout, write_private};
use crate::transport::{ListenError, Listener, ListenerOptions, ServerIdentity, Stores, TransportEvent};
use fleet_config::refusal::Refusal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use tokio::sync::mpsc;

/// Addresses that belong to nobody (RFC 5737 and RFC 3849): the way to them is the way to other machines.
const SOMEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Starts to listen. Port 0 takes the port of the last time if it is free, so that enrolled nodes find the
/// coordinator again; else any free one, and that one is remembered.
pub fn listen(
    options: &Options,
    layout: &Layout,
    identity: ServerIdentity,
    stores: &Stores,
    events: &mpsc::Sender<TransportEvent>,
) -> Result<Listener, Refusal> {
    let mut wanted = ListenerOptions { address: options.listen, identity };
    let start = |wanted: &ListenerOptions| Listener::start(wanted, stores.clone(), events.clone());
    let listener = match remembered(layout).filter(|_| options.listen.port() == 0) {
        None => start(&wanted)?,
        Some(port) => {
            wanted.address.set_port(port);
            match start(&wanted) {
                Ok(listener) => listener,
                Err(error @ ListenError::Bind { .. }) => {
                    tracing::warn!(
                        %error,
                        "the port of the last time is not free; nodes that know it cannot find this coordinator"
                    );
                    wanted.address.set_port(0);
                    start(&wanted)?
                }
                Err(error @ ListenError::Tls(_)) => return Err(error.into()),
            }
        }
    };
    let port = listener.local_address().port();
    if options.listen.port() == 0 {
        let path = layout.port();
        write_private(&path, port.to_string().as_bytes())
            .map_err(|error| crate::state::io(&path.display().to_string(), &error))?;
    }
    Ok(listener)
}

/// The port of the last start; a file that holds none counts as none.
fn remembered(layout: &Layout) -> Option<u16> {
    let text = std::fs::read_to_string(layout.port()).ok()?;
    text.trim().parse().ok().filter(|port| *port != 0)
}

/// Refuses what no node could dial.
pub fn check_advertised(advertised: &[String]) -> Result<(), Refusal> {
    let is_dialable = |text: &String| {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0) && text.is_ascii()
    };
    match advertised.iter().find(|text| !is_dialable(text)) {
        None => Ok(()),
        Some(bad) => Err(Refusal::new(
            "listen/advertise",
            bad.chars().take(120).collect::<String>(),
            "this is no HOST:PORT",
            "write it as coordinator.lab.example:4460",
        )),
    }
}

/// The addresses that invites carry: the advertised ones, then the one listened on. That a socket listens on every
/// address of the machine tells a node nothing: then one of the machine's own stands for it.
pub fn dialable(advertised: &[String], bound: SocketAddr) -> Result<Vec<String>, Refusal> {
    let mut addresses = advertised.to_vec();
    if !bound.ip().is_unspecified() {
        addresses.push(bound.to_string());
        return Ok(addresses);
    }
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    let own = SOMEWHERE.iter().filter(|ip| bound.is_ipv6() || ip.is_ipv4()).find_map(|ip| own_address(*ip));
    let Some(own) = own else {
        return Err(Refusal::new(
            "listen/no-address",
            bound.to_string(),
            "no address of this machine is known that nodes elsewhere could dial",
            "say which one with --advertise HOST:PORT, or listen on one address",
        ));
    };
    let own = SocketAddr::new(own, bound.port()).to_string();
    tracing::warn!(
        address = own,
        "invites will name this address; if nodes cannot reach it, say --advertise"
    );
    addresses.push(own);
    Ok(addresses)
}

/// The address that this machine would dial `elsewhere` from. Connecting a UDP socket sends nothing.
fn own_address(elsewhere: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if elsewhere.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((elsewhere, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invites_carry_what_can_be_dialled() {
        let given = vec!["coordinator.lab.example:4460".to_owned()];
        let plain: SocketAddr = "192.0.2.7:4460".parse().unwrap();
        assert_eq!(dialable(&[], plain).unwrap(), ["192.0.2.7:4460"]);
        assert_eq!(dialable(&given, plain).unwrap(), [given[0].as_str(), "192.0.2.7:4460"]);
        for every in ["0.0.0.0:4460", "[::]:4460"] {
            let every: SocketAddr = every.parse().unwrap();
            assert_eq!(dialable(&given, every).unwrap(), given, "nothing that nobody can dial");
            match dialable(&[], every) {
                Ok(found) => {
                    let found: SocketAddr = found[0].parse().unwrap();
                    assert!(!found.ip().is_unspecified() && found.port() == 4460, "{found}");
                }
                Err(refusal) => {
                    assert_eq!(refusal.code, "listen/no-address");
                    assert!(refusal.next.contains("--advertise"));
                }
            }
        }
    }

    #[test]
    fn what_no_node_could_dial_is_no_advertisement() {
        check_advertised(&["a.example:1".to_owned(), "[2001:db8::1]:4460".to_owned()]).unwrap();
        for bad in ["a.example", "a.example:0", ":4460", "a.example:port", "ä.example:4460", ""] {
            let refusal = check_advertised(&[bad.to_owned()]).unwrap_err();
            assert_eq!(refusal.code, "listen/advertise", "{bad}");
        }
    }
}
