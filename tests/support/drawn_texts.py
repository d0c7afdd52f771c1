"""Read the texts in a figure."""


def texts(fig) -> str:
    handles = [t.get_text() for legend in fig.legends for t in (*legend.get_texts(), legend.get_title())]
    return "\n".join(
        [*handles, fig.get_supxlabel(), *(f"{ax.get_xlabel()} {ax.get_ylabel()} {ax.get_title()}" for ax in fig.axes)]
    )
