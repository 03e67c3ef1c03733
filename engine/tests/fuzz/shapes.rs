//! Large inputs of one shape each, of any size: what a parser could take too long for.

/// A name, and the text of about so many bytes.
pub(crate) type Shape = (&'static str, &'static (dyn Fn(usize) -> Vec<u8> + Sync));

fn many(before: &str, element: impl Fn(&mut String, usize), after: &str, size: usize) -> Vec<u8> {
    let mut text = before.to_owned();
    let mut number = 0;
    while text.len() + after.len() < size {
        if number > 0 {
            text.push(',');
        }
        element(&mut text, number);
        number += 1;
    }
    (text + after).into_bytes()
}

fn same(before: &str, element: &str, after: &str, size: usize) -> Vec<u8> {
    many(before, |text, _| text.push_str(element), after, size)
}

fn numbered(before: &str, element: impl Fn(usize) -> String, after: &str, size: usize) -> Vec<u8> {
    many(before, |text, number| text.push_str(&element(number)), after, size)
}

fn repeat(piece: &str, size: usize) -> Vec<u8> {
    piece.repeat(size / piece.len()).into_bytes()
}

pub(crate) const SHAPES: &[Shape] = &[
    ("members", &|size| numbered("{", |n| format!("\"k{n}\":{n}"), "}", size)),
    ("members twice", &|size| numbered("{", |n| format!("\"k{}\":0", n / 2), "}", size)),
    ("one member again and again", &|size| same("{", "\"ips\":[]", "}", size)),
    ("one member in two spellings", &|size| {
        numbered("{", |n| format!("\"{}\":[]", if n % 2 == 0 { "ips" } else { "IPS" }), "}", size)
    }),
    ("nested lists", &|size| repeat("[", size)),
    ("nested objects", &|size| repeat("{\"a\":", size)),
    ("a number", &|size| repeat("9", size)),
    ("a text", &|size| [b"\"".to_vec(), repeat("x", size - 2), b"\"".to_vec()].concat()),
    ("escapes", &|size| [b"\"".to_vec(), repeat("\\ud83d\\ude00", size - 2), b"\"".to_vec()].concat()),
    ("bytes that are no UTF-8", &|size| [b"\"".to_vec(), vec![0xff; size - 2], b"\"".to_vec()].concat()),
    ("lines", &|size| repeat("\n", size)),
    ("white space", &|size| repeat(" ", size)),
    ("zero bytes", &|size| vec![0; size]),
    ("arguments", &|size| repeat("1=2;", size)),
    ("arguments with names", &|size| {
        let mut text = String::new();
        for n in 0.. {
            if text.len() >= size {
                break;
            }
            text += &format!("K{n}={n};");
        }
        text.into_bytes()
    }),
    ("dots", &|size| repeat("1.", size)),
    ("variables", &|size| {
        let mut text = String::from("CNI_COMMAND=ADD\0");
        for n in 0.. {
            if text.len() >= size {
                break;
            }
            text += &format!("V{n}={n}\0");
        }
        text.into_bytes()
    }),
    ("a variable", &|size| [b"CNI_COMMAND=ADD\0CNI_ARGS=".to_vec(), repeat("x", size)].concat()),
    ("interfaces", &|size| {
        same("{\"cniVersion\":\"1.1.0\",\"interfaces\":[", "{\"name\":\"e\"}", "]}", size)
    }),
    ("addresses", &|size| {
        let element = "{\"address\":\"192.0.2.1/24\",\"interface\":0}";
        same("{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"e\"}],\"ips\":[", element, "]}", size)
    }),
    ("old routes", &|size| {
        same(
            "{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"::/0\",\"routes\":[",
            "{\"dst\":\"0.0.0.0/0\"}",
            "]}}",
            size,
        )
    }),
    ("name servers", &|size| {
        same("{\"cniVersion\":\"1.0.0\",\"dns\":{\"nameservers\":[", "\"192.0.2.1\"", "]}}", size)
    }),
    ("plugins", &|size| same("{\"name\":\"n\",\"plugins\":[", "{\"type\":\"a\"}", "]}", size)),
    ("versions", &|size| same("{\"name\":\"n\",\"cniVersions\":[", "\"1.0\"", "]}", size)),
    ("capabilities", &|size| {
        numbered(
            "{\"name\":\"n\",\"type\":\"a\",\"capabilities\":{",
            |n| format!("\"k{n}\":true"),
            "}}",
            size,
        )
    }),
    ("supported versions", &|size| {
        same("{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[", "\"1.0.0\"", "]}", size)
    }),
    ("delegates", &|size| {
        let element = |n| format!("{{\"name\":\"n{n}\",\"type\":\"p\"}}");
        numbered("{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[", element, "]}", size)
    }),
    ("delegates of one interface", &|size| {
        let element = "{\"interface\":\"a\",\"config\":{\"name\":\"n\",\"type\":\"p\"}}";
        same("{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[", element, "]}", size)
    }),
    ("wrong delegates", &|size| {
        same("{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[", "1", "]}", size)
    }),
    ("gateways", &|size| {
        let element = |n: usize| format!("\"10.{}.{}.{}\"", n >> 16 & 255, n >> 8 & 255, n & 255);
        let before = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[{\"config\":{\"name\":\"n\",\"type\":\"p\"},\"default-route\":[";
        numbered(before, element, "]}]}", size)
    }),
    ("unknown keys of an attachment", &|size| {
        let before = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[{\"config\":{\"name\":\"n\",\"type\":\"p\"},";
        numbered(before, |n| format!("\"k{n}\":0"), "}]}", size)
    }),
    ("port mappings", &|size| {
        let before = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[{\"config\":{\"name\":\"n\",\"type\":\"p\",\"capabilities\":{\"portMappings\":true}},\"portMappings\":[";
        same(before, "{\"hostPort\":1,\"containerPort\":1}", "]}]}", size)
    }),
    ("arguments for many plugins", &|size| {
        let before = format!(
            "{{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"delegates\":[{{\"cni-args\":{{\"a\":\"{}\"}},\"config\":{{\"name\":\"n\",\"plugins\":[",
            "x".repeat(size / 2)
        );
        same(&before, "{\"type\":\"a\"}", "]}}]}", size)
    }),
    ("annotations for many delegates", &|size| {
        let before = format!(
            "{{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"runtimeConfig\":{{\"io.kubernetes.cri.pod-annotations\":{{\"a\":\"{}\"}}}},\"delegates\":[",
            "x".repeat(size / 2)
        );
        same(&before, "{\"name\":\"n\",\"type\":\"a\"}", "]}", size)
    }),
    ("valid attachments", &|size| {
        let element = |n| format!("{{\"containerID\":\"c{n}\",\"ifname\":\"eth0\"}}");
        numbered(
            "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"cni.dev/valid-attachments\":[",
            element,
            "]}",
            size,
        )
    }),
    ("a pipeline", &|size| {
        same(
            "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"prevResult\":{},\"pipeline\":[",
            "{\"stage\":\"s\"}",
            "]}",
            size,
        )
    }),
    ("tags", &|size| {
        let before = "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"prevResult\":{},\"pipeline\":[{\"stage\":\"s\",\"when\":[";
        numbered(before, |n| format!("\"t{n}\""), "]}]}", size)
    }),
    ("intents", &|size| {
        same("[", "{\"ipv4\":{\"action\":\"leave\"},\"ipv6\":{\"action\":\"leave\"}}", "]", size)
    }),
    ("overriding gateways", &|size| {
        let element = |n: usize| format!("\"10.{}.{}.{}\"", n >> 16 & 255, n >> 8 & 255, n & 255);
        numbered("[{\"ipv4\":{\"action\":\"override\",\"gateways\":[", element, "]}}]", size)
    }),
    ("modules", &|size| numbered("{\"modules\":{", |n| format!("\"m{n}\":{{}}"), "}}", size)),
    ("unknown modules keys", &|size| {
        numbered("{\"modules\":{\"m\":{", |n| format!("\"k{n}\":0"), "}}}", size)
    }),
    ("grants", &|size| {
        numbered("{\"modules\":{\"m\":{\"grants\":{\"publish\":[", |n| format!("\"k/{n}\""), "]}}}}", size)
    }),
    ("paths", &|size| numbered("{\"paths\":{\"bin\":[", |n| format!("\"/a/{n}\""), "]}}", size)),
    ("events", &|size| {
        let mut text = super::corpus::ledger_entries().swap_remove(0);
        while text.len() < size {
            text.extend_from_slice(b"\n{\"spawned\":{\"group\":7,\"startTime\":8,\"position\":0}}");
        }
        text
    }),
];
