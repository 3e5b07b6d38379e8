import java.io.File;
import java.util.List;
import org.jgroups.Address;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.View;

/** The API of JGroups 2.12. */
final class Binding extends ReceiverAdapter implements Driver.Group {
    private final Driver driver;
    private final JChannel channel;

    Binding(Driver driver, String stack, String name) throws Exception {
        this.driver = driver;
        channel = new JChannel(new File(stack));
        channel.setName(name);
        channel.setReceiver(this);
    }

    @Override
    public void connect(String cluster) throws Exception {
        channel.connect(cluster);
    }

    @Override
    public void send(Object dest, byte[] payload, boolean outOfBand) throws Exception {
        Message message = new Message((Address) dest, null, payload);
        if (outOfBand)
            message.setFlag(Message.OOB);
        channel.send(message);
    }

    @Override
    public List<?> members() {
        return List.copyOf(channel.getView().getMembers());
    }

    @Override
    public Object self() {
        return channel.getAddress();
    }

    @Override
    public void close() {
        channel.close();
    }

    @Override
    public void receive(Message message) {
        driver.received(message.getSrc(), message.getRawBuffer(), message.getOffset(), message.getLength(),
                        message.isFlagSet(Message.OOB));
    }

    @Override
    public void viewAccepted(View view) {
        if (channel.isConnected())                              // the first view comes while connecting
            driver.viewed();
    }
}
