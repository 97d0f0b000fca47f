/** Which page is this address, and how is it started? Each page is a file that only it loads. */
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/card.css";

const container = document.getElementById("root");
if (container === null) throw new Error("index.html has no #root");

if (/^\/admin\/?$/.test(location.pathname)) {
  void import("./admin/boot").then(({ boot }) => boot(container));
} else {
  void import("./boot").then(({ boot }) => boot(container));
}
